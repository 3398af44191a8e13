"""`dllm-stack up`: queue, router, workers with their engines, and gateway as children of one process.

It starts them, shows each as it gets ready, restarts one that dies, and stops them in order on Ctrl-C.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

import aiohttp
from rich.console import Console
from rich.markup import escape

from dllm_stack.keys import KeyStore
from dllm_stack.local import logs, monitoring, valkey
from dllm_stack.local.greeting import KEY_IN_ENVIRONMENT, first_answer, snippets
from dllm_stack.local.service import Service, free_port, listen
from dllm_stack.local.workers import StartError, workers
from dllm_stack.redis import Connections, RedisError, shown
from dllm_stack.settings import Listener, Settings

_POLL_S = 0.2
_REDIS_START_S = 10.0
_SCRAPE_S = 5
_RESTART_S = 1.0  # pause before a dead service is started again
_WORKER_LEAVES_S = 20.0  # after its drain: jobs given back, the engine killed


class _Stop(Exception):
    """Leaves the task group, which ends every watch."""


def run(settings: Settings) -> int:
    """Runs the stack until SIGINT or SIGTERM; a second one does not wait for open requests.

    Starts an embedded Valkey unless the settings name a Redis.

    Returns:
        The exit status: 0 after a clean stop, 1 when the stack could not start.
    """
    console = Console(highlight=False, soft_wrap=True)
    with logs.folder() as folder:
        try:
            asyncio.run(Stack(settings, folder, console).run())
        except StartError as error:
            console.print(f"[bold red]The stack did not start.[/] {escape(str(error))}")
            if any(folder.iterdir()):
                console.print(f"Logs, until the next start: {folder}")
            else:
                folder.rmdir()
            return 1
        shutil.rmtree(folder)
    return 0


class Stack:
    def __init__(self, settings: Settings, folder: Path, console: Console) -> None:
        self._console = console
        self._folder = folder
        self._ready: set[str] = set()
        self._stop, self._hurry = asyncio.Event(), asyncio.Event()

        self._redis = settings.redis
        self._valkey: Service | None = None
        if "url" not in settings.redis.model_fields_set:
            port = free_port()
            self._redis = settings.redis.model_copy(update={"url": f"redis://127.0.0.1:{port}/0"})
            self._valkey = self._child("valkey", valkey.command(port, folder), env={}, stop_s=5)

        self._keys = settings.access.keys
        self._page = settings.gateway.playground
        self._workers = workers(settings)
        # Each is a host and a port; port 0 means any, but `up` has to know which.
        groups: dict[str, Listener] = {"router": settings.router}
        groups |= {worker.name: worker.listener for worker in self._workers}
        groups["gateway"] = settings.gateway
        self._addresses = {name: (group.host, group.port or free_port()) for name, group in groups.items()}
        self._monitors: list[Service] = []
        self._monitoring: int | None = None  # Prometheus' port
        if settings.up.monitoring:
            self._monitoring = settings.up.prometheus_port or free_port()
        stop_s = {"router": 5, "gateway": settings.gateway.drain_s + 5}
        local = {worker.name: worker for worker in self._workers}
        self.services = []
        for name, (_, port) in self._addresses.items():
            command = "worker" if name in local else name
            env = {"DLLM_REDIS__URL": self._redis.url, f"DLLM_{command.upper()}__PORT": str(port)}
            if name in local:
                env |= {"DLLM_WORKER__MODEL": local[name].model} | local[name].env
            self.services.append(
                self._child(
                    name,
                    [sys.executable, "-m", "dllm_stack.cli", command],
                    env=env,
                    stop_s=stop_s.get(name, settings.worker.drain_s + _WORKER_LEAVES_S),
                )
            )

    def _child(self, name: str, argv: list[str], *, env: dict[str, str], stop_s: float) -> Service:
        return Service(name, argv, env=env, log=self._folder / f"{name}.log", stop_s=stop_s)

    async def run(self) -> None:
        """Raises StartError."""
        self._check_monitoring()
        self._check_ports()
        for signal_name in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(signal_name, self._on_signal)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._start(group))
                await self._stop.wait()
                raise _Stop
        except* _Stop:
            pass
        except* StartError as errors:
            raise errors.exceptions[0] from None
        finally:
            await self._end()

    def _check_monitoring(self) -> None:
        if self._monitoring is not None:
            try:
                monitoring.find()
            except monitoring.NotInstalled as error:
                raise StartError(str(error)) from None

    def _check_ports(self) -> None:
        with ExitStack() as held:  # together, so that two services on one port are found too
            variables = {name: f"DLLM_{name.partition('-')[0].upper()}__PORT" for name in self._addresses}
            addresses = dict(self._addresses)
            if self._monitoring is not None:
                addresses["prometheus"] = ("127.0.0.1", self._monitoring)
                variables["prometheus"] = "DLLM_UP__PROMETHEUS_PORT"
            for name, (host, port) in addresses.items():
                try:
                    held.enter_context(listen(host, port))
                except OSError as error:
                    reason = str(error.strerror).partition(" (")[0]  # what follows repeats the address
                    raise StartError(
                        f"The {name} cannot listen on {host}:{port}: {reason}. "
                        f"{variables[name]} sets another port."
                    ) from None

    def _on_signal(self) -> None:
        (self._hurry if self._stop.is_set() else self._stop).set()

    async def _start(self, group: asyncio.TaskGroup) -> None:
        began = time.monotonic()
        await self._start_redis(group)
        key = await self._key()
        for service in self.services:
            await self._launch(service, group)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
            for name in ("router", "gateway"):
                await self._wait_ready(session, name)
            await self._start_monitoring(session, group)
            since = time.monotonic()
            models = [
                (await self._wait_ready(session, worker.name, since))["model"] for worker in self._workers
            ]
        url = self._url("gateway")
        if self._page:
            self._console.print(f"\nChat with it in a browser: {escape(url)}/", style="default")
        self._console.print(f"\n{escape(snippets(url, models[0], key))}", style="default")
        several = len(set(models)) > 1
        for model in dict.fromkeys(models) if key != KEY_IN_ENVIRONMENT else ():
            await self._greet(url, model, key, began, of=f" of {model}" if several else "")
            self._console.print(end="\n\n" if several else " ")
        self._console.print("Ctrl-C stops everything.")

    async def _key(self) -> str | None:
        """What the first request is sent with. Its own Valkey has no keys yet, so it gets one that dies with
        it; whoever keeps keys elsewhere has theirs."""
        if self._keys == "off":
            return None
        if self._valkey is None or self._keys != "redis":
            return KEY_IN_ENVIRONMENT
        connections = Connections(self._redis)
        try:
            return (await KeyStore(connections).create("default", label="dllm-stack up")).secret
        except RedisError as error:
            raise StartError(f"A key could not be made: {error}") from None
        finally:
            await connections.aclose()

    async def _greet(self, url: str, model: str, key: str | None, began: float, of: str) -> None:
        asked = time.monotonic()
        try:
            answer = await first_answer(url, model, key)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise StartError(f"The first request{of} failed: {error!r}") from None
        answered = time.monotonic()
        self._console.print(f"A first answer{of}, {answered - began:.0f} s after the start:\n")
        self._console.print(escape(answer["choices"][0]["message"]["content"]), "\n")
        tokens = answer["usage"]["completion_tokens"]
        self._console.print(f"{tokens} tokens in {answered - asked:.1f} s.", end="")

    async def _start_redis(self, group: asyncio.TaskGroup) -> None:
        if self._valkey is not None:
            await self._launch(self._valkey, group)
        name, url = ("valkey" if self._valkey else "redis"), shown(self._redis.url)
        connections = Connections(self._redis)
        deadline = time.monotonic() + _REDIS_START_S
        try:
            with self._console.status(f"{name:<8} waiting for {escape(url)}"):
                while True:
                    try:
                        await connections.ping()
                        break
                    except RedisError as error:
                        if time.monotonic() > deadline:
                            raise StartError(f"Redis at {url} does not answer: {error}") from None
                        await asyncio.sleep(_POLL_S)
        finally:
            await connections.aclose()
        self._ready.add(name)
        self._line(name, f"ready    {url}")

    async def _start_monitoring(self, session: aiohttp.ClientSession, group: asyncio.TaskGroup) -> None:
        if self._monitoring is None:
            return
        targets: dict[str, list[str]] = {}
        for name in self._addresses:
            targets.setdefault(name.partition("-")[0], []).append(self._url(name).removeprefix("http://"))
        for tool in monitoring.tools(
            self._folder, targets, self._redis.url, port=self._monitoring, every_s=_SCRAPE_S
        ):
            service = self._child(tool.name, tool.argv, env=tool.env, stop_s=5)
            self._monitors.append(service)
            await self._launch(service, group)
            while not await _is_ok(session, tool.probe):  # noqa: ASYNC110
                await asyncio.sleep(_POLL_S)
            self._ready.add(tool.name)
            self._line(tool.name, f"ready    {tool.url}")

    async def _launch(self, service: Service, group: asyncio.TaskGroup) -> None:
        await service.start()
        group.create_task(self._watch(service))

    async def _wait_ready(
        self, session: aiohttp.ClientSession, name: str, since: float | None = None
    ) -> dict[str, Any]:
        """Returns what the service says about itself.

        Args:
            since: when the wait began, of several that wait at once.
        """
        began = time.monotonic() if since is None else since
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
        return detail

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
            self._line(service.name, f"ended with status {status}, starting it again; its log: {service.log}")
            await asyncio.sleep(_RESTART_S)
            await service.start()

    async def _end(self) -> None:
        """The gateway before what it needs, so that open requests can finish, and the queue last."""
        services = [*reversed(self._monitors), *reversed(self.services)]
        services += [self._valkey] if self._valkey else []
        if any(service.running for service in services):
            self._console.print("\nStopping. Ctrl-C again does not wait for open requests.")
        for service in services:
            if service.running:
                began = time.monotonic()
                with self._console.status(f"{service.name:<8} stopping"):
                    await service.stop(self._hurry)
                self._line(service.name, f"stopped  after {time.monotonic() - began:.1f} s")

    def _url(self, name: str) -> str:
        host, port = self._addresses[name]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def _line(self, name: str, text: str) -> None:
        self._console.print(f"[bold]{name:<8}[/] {escape(text)}")


async def _is_ok(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
