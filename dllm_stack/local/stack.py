"""`dllm-stack up`: queue, router, worker with its engine, and gateway as children of one process.

It starts them, shows each as it gets ready, restarts one that dies, and stops them in order on Ctrl-C.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

import aiohttp
from rich.console import Console
from rich.markup import escape

from dllm_stack.local.greeting import first_answer, snippets
from dllm_stack.local.service import Service, free_port, port_is_free
from dllm_stack.redis import Connections, RedisError
from dllm_stack.settings import Listener, RedisSettings, Settings

_POLL_S = 0.2
_REDIS_START_S = 10.0
_RESTART_S = 1.0  # pause before a dead service is started again
_ENGINE_STOP_S = 20.0  # SGLang takes about 12 s to end by itself


class StartError(Exception):
    """The stack cannot run; the message says why."""


class _Stop(Exception):
    """Leaves the task group, which ends every watch."""


def run(settings: Settings, redis_url: str | None) -> int:
    """Runs the stack until SIGINT or SIGTERM.

    Args:
        redis_url: a Redis to use; None takes the one set in `settings`, or else an embedded Valkey.

    Returns:
        The exit status: 0 after a clean stop, 1 when the stack could not start.
    """
    console = Console(highlight=False, soft_wrap=True)
    logs = Path(tempfile.mkdtemp(prefix="dllm-stack-"))
    try:
        asyncio.run(Stack(settings, redis_url, logs, console).run())
    except StartError as error:
        console.print(f"[bold red]The stack did not start.[/] {escape(str(error))}\nLogs: {logs}")
        return 1
    shutil.rmtree(logs)
    return 0


class Stack:
    def __init__(self, settings: Settings, redis_url: str | None, logs: Path, console: Console) -> None:
        self._console = console
        self._logs = logs
        self._ready: set[str] = set()

        given = redis_url or (settings.redis.url if "url" in settings.redis.model_fields_set else None)
        redis_port = free_port()
        self._redis = RedisSettings(url=given or f"redis://127.0.0.1:{redis_port}/0")
        self._valkey: Service | None = None
        if given is None:
            self._valkey = self._child("valkey", "dllm_stack.local.valkey", str(redis_port), stop_s=5)

        # Each is a host and a port; port 0 means any, but `up` has to know which.
        groups: dict[str, Listener] = {
            "router": settings.router,
            "worker": settings.worker,
            "gateway": settings.gateway,
        }
        self._addresses = {name: (group.host, group.port or free_port()) for name, group in groups.items()}
        env = {"DLLM_REDIS__URL": self._redis.url}
        env |= {f"DLLM_{name.upper()}__PORT": str(port) for name, (_, port) in self._addresses.items()}
        stop_s = {
            "router": 5,
            "worker": settings.worker.drain_s + _ENGINE_STOP_S,
            "gateway": settings.gateway.drain_s + 5,
        }
        self._services = [
            self._child(name, "dllm_stack.cli", name, env=env, stop_s=stop_s[name]) for name in groups
        ]

    def _child(
        self, name: str, module: str, argument: str, *, env: dict[str, str] | None = None, stop_s: float
    ) -> Service:
        return Service(name, module, argument, env=env or {}, log=self._logs / f"{name}.log", stop_s=stop_s)

    async def run(self) -> None:
        for name, (host, port) in self._addresses.items():
            if not port_is_free(host, port):
                raise StartError(f"Port {port} of {host} is taken. Set DLLM_{name.upper()}__PORT to another.")
        stop = asyncio.Event()
        for signal_name in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(signal_name, stop.set)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._start(group))
                await stop.wait()
                raise _Stop
        except* _Stop:
            pass
        except* StartError as errors:
            raise errors.exceptions[0] from None
        finally:
            await self._end()

    async def _start(self, group: asyncio.TaskGroup) -> None:
        began = time.monotonic()
        await self._start_redis(group)
        for service in self._services:
            await service.start()
            group.create_task(self._watch(service))
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
            for service in self._services:
                if service.name != "worker":
                    await self._wait_ready(session, service.name)
            await self._wait_ready(session, "worker")
            url = self._url("gateway")
            async with session.get(f"{url}/v1/models") as response:
                model = (await response.json())["data"][0]["id"]
        answer = await first_answer(url, model)
        self._console.print(f"\n{escape(snippets(url, model))}", style="default")
        self._console.print(f"A first answer, {time.monotonic() - began:.0f} s after the start:\n")
        self._console.print(escape(answer["choices"][0]["message"]["content"]), "\n")
        self._console.print(f"{answer['usage']['completion_tokens']} tokens. Ctrl-C stops everything.")

    async def _start_redis(self, group: asyncio.TaskGroup) -> None:
        if self._valkey is not None:
            await self._valkey.start()
            group.create_task(self._watch(self._valkey))
        connections = Connections(self._redis)
        deadline = time.monotonic() + _REDIS_START_S
        while True:
            try:
                await connections.ping()
                break
            except RedisError:
                if time.monotonic() > deadline:
                    raise StartError(f"Redis at {self._redis.url} does not answer.") from None
                await asyncio.sleep(_POLL_S)
        await connections.aclose()
        self._ready.add("valkey")
        self._line("valkey" if self._valkey else "redis", f"ready    {self._redis.url}")

    async def _wait_ready(self, session: aiohttp.ClientSession, name: str) -> None:
        began = time.monotonic()
        with self._console.status("") as status:
            while True:
                ready, detail = await self._readiness(session, name)
                if ready:
                    break
                seconds = time.monotonic() - began
                status.update(f"{name:<8} {detail.get('state', 'starting')}, {seconds:.0f} s")
                await asyncio.sleep(_POLL_S)
        self._ready.add(name)
        self._line(name, f"ready    {self._url(name)}  after {time.monotonic() - began:.1f} s")

    async def _readiness(self, session: aiohttp.ClientSession, name: str) -> tuple[bool, dict[str, Any]]:
        try:
            async with session.get(f"{self._url(name)}/readyz") as response:
                return response.status == 200, await response.json()
        except (aiohttp.ClientError, TimeoutError):
            return False, {}

    async def _watch(self, service: Service) -> NoReturn:
        """Starts a service again whenever it ends; one that ends before it was ready is given up."""
        while True:
            status = await service.wait()
            if service.name not in self._ready:
                raise StartError(f"The {service.name} ended with status {status}:\n{service.tail()}")
            self._line(service.name, f"ended with status {status}, starting it again")
            await asyncio.sleep(_RESTART_S)
            await service.start()

    async def _end(self) -> None:
        """Gateway first, so that open requests can finish, and the queue last."""
        self._console.print("\nStopping.")
        for service in reversed(self._services):
            await service.stop()
        if self._valkey is not None:
            await self._valkey.stop()

    def _url(self, name: str) -> str:
        host, port = self._addresses[name]
        return f"http://{host}:{port}"

    def _line(self, name: str, text: str) -> None:
        self._console.print(f"[bold]{name:<8}[/] {escape(text)}")
