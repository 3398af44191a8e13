"""The gateway as a process of its own: its start without Redis, and its end by signal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from dllm_stack.local.service import free_port
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings, Settings
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import RestartableRedis, until

MAIN = "from dllm_stack.settings import load; from gateway.main import run; run(load())"
CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
PATH = "/v1/chat/completions"


class Process:
    def __init__(self, process: asyncio.subprocess.Process, http: httpx.AsyncClient) -> None:
        self.http = http
        self._process = process

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def exit_code(self) -> int:
        return await asyncio.wait_for(self._process.wait(), 120)

    async def status(self, path: str) -> int:
        try:
            return (await self.http.get(path)).status_code
        except httpx.TransportError:
            return 0


@asynccontextmanager
async def running(redis: RedisSettings, **settings: str) -> AsyncIterator[Process]:
    port = free_port()
    env = {
        **os.environ,
        "DLLM_REDIS__URL": redis.url,
        "DLLM_REDIS__TIMEOUT_S": str(redis.timeout_s),
        "DLLM_QUEUE__HEARTBEAT_S": "0.1",
        "DLLM_QUEUE__HEARTBEAT_TTL_S": "60",
        "DLLM_GATEWAY__PORT": str(port),
        "DLLM_GATEWAY__DRAIN_S": "600",
        **settings,
    }
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", MAIN, env=env)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120) as http:
        gateway = Process(process, http)
        try:

            async def live() -> bool:
                assert process.returncode is None, "the gateway has ended"
                return await gateway.status("/healthz") == 200

            await until(live)
            yield gateway
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def test_sigterm_lets_open_requests_finish(
    connections: Connections, settings: Settings, worker: FakeWorker
) -> None:
    async with running(settings.redis) as gateway:
        request = asyncio.create_task(gateway.http.post(PATH, json={**CHAT, "stream": True}))
        run = await worker.claimed()
        await run.commit("before ")
        gateway.terminate()

        async def not_ready() -> bool:
            return await gateway.status("/readyz") == 503

        await until(not_ready)
        late = asyncio.create_task(gateway.http.post(PATH, json=CHAT))
        await (await worker.claimed()).finish()
        assert (await late).headers["connection"] == "close"
        await run.commit("after")
        await run.finish()
        text = (await request).text
        assert "before " in text
        assert "after" in text
        assert text.endswith("data: [DONE]\n\n")
        assert await gateway.exit_code() == 0
        assert await connections.commands.zcard("dllm:{tiny}:gateways") == 0
        assert [key async for key in connections.commands.scan_iter("dllm:{tiny}:replies:*")] == []


async def test_half_of_the_drain_is_for_what_was_taken_before(
    connections: Connections, settings: Settings, worker: FakeWorker
) -> None:
    async with running(settings.redis, DLLM_GATEWAY__DRAIN_S="12") as gateway:
        stream = asyncio.create_task(gateway.http.post(PATH, json={**CHAT, "stream": True}))
        run = await worker.claimed()
        gateway.terminate()

        async def refuses() -> bool:
            response = await gateway.http.post(PATH, json={})
            assert response.status_code in (400, 503)
            return response.status_code == 503 and response.json()["error"]["code"] == "shutting_down"

        await until(refuses)
        refused = await gateway.http.post(PATH, json=CHAT)
        assert refused.headers["connection"] == "close"
        assert int(refused.headers["retry-after"]) > 0
        await run.finish()
        assert (await stream).text.endswith("data: [DONE]\n\n")
        assert await gateway.exit_code() == 0


async def test_a_client_may_go_on_with_a_connection_on_which_its_stream_has_ended(
    connections: Connections, settings: Settings, worker: FakeWorker
) -> None:
    body = json.dumps({**CHAT, "stream": True}).encode()
    head = f"POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    request = head.encode() + body
    async with running(settings.redis) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.http.base_url.port)
        writer.write(request)
        run = await worker.claimed()
        await run.commit("before ")
        first = await asyncio.wait_for(reader.readuntil(b"before "), 120)
        gateway.terminate()
        await run.finish()
        await asyncio.wait_for(reader.readuntil(b"[DONE]\n\n\r\n0\r\n\r\n"), 120)
        assert b"connection: close" not in first
        writer.write(request)
        await (await worker.claimed()).finish()
        second = await asyncio.wait_for(reader.read(), 120)  # to the end of the connection
        assert b"connection: close" in second
        assert second.endswith(b"[DONE]\n\n\r\n0\r\n\r\n")
        writer.close()
        assert await gateway.exit_code() == 0


async def test_the_end_of_the_drain_ends_what_is_left(
    connections: Connections, settings: Settings, worker: FakeWorker
) -> None:
    async with running(settings.redis, DLLM_GATEWAY__DRAIN_S="0.2") as gateway:
        stream = asyncio.create_task(gateway.http.post(PATH, json={**CHAT, "stream": True}))
        first = await worker.claimed()
        await first.commit("part")
        whole = asyncio.create_task(gateway.http.post(PATH, json=CHAT))
        second = await worker.claimed()
        gateway.terminate()
        assert '"code":"shutting_down"' in (await stream).text
        assert (await whole).status_code == 503
        assert await gateway.exit_code() == 0
        await asyncio.wait_for(first.cancelled.wait(), 120)
        await asyncio.wait_for(second.cancelled.wait(), 120)
        assert await connections.commands.zcard("dllm:{tiny}:gateways") == 0


async def test_a_taken_port_is_named(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        env = {**os.environ, "DLLM_GATEWAY__PORT": str(taken.getsockname()[1])}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", MAIN, env=env, stderr=asyncio.subprocess.PIPE
        )
        _, output = await process.communicate()
    assert process.returncode == 2
    assert output.startswith(b"gateway.port: Address already in use")
    assert output.count(b"\n") == 1


async def test_an_idle_gateway_ends_at_once(settings: Settings, connections: Connections) -> None:
    async with running(settings.redis) as gateway:
        gateway.terminate()
        assert await gateway.exit_code() == 0


@pytest.fixture
def stopped_redis() -> RestartableRedis:
    redis = RestartableRedis()
    redis.stop()
    return redis


async def test_it_starts_before_redis_does(stopped_redis: RestartableRedis, settings: Settings) -> None:
    async with running(RedisSettings(url=stopped_redis.url, timeout_s=60)) as gateway:
        assert await gateway.status("/readyz") == 503
        refused = await gateway.http.post(PATH, json=CHAT)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "queue_unavailable")
        stopped_redis.start()
        connections = Connections(RedisSettings(url=stopped_redis.url, timeout_s=60))
        try:
            async with FakeWorker(connections, settings.queue, blocks=["Hi"]).working():

                async def ready() -> bool:
                    return await gateway.status("/readyz") == 200

                await until(ready)
                assert (await gateway.http.post(PATH, json=CHAT)).status_code == 200
        finally:
            await connections.aclose()
            stopped_redis.close()
