"""A stack of several processes of each kind on this machine, with simulators for engines."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from dllm_stack.local import valkey
from dllm_stack.local.service import Service, free_port
from dllm_stack.redis import Connections, RedisError
from dllm_stack.settings import RedisSettings
from loadtest.simulator import server
from loadtest.simulator.__main__ import CHECKPOINT

POOL = server.MODEL  # which every gateway asks the simulator for
START_S = 90.0
_POLL_S = 0.05
MODEL = f"""\
name: {POOL}
checkpoint: {CHECKPOINT}
dllm:
  algorithm: LowConfidence
"""


# An engine that tells what blocks have cost is one that decodes as each request asks.
MODEL_WITH_MODES = f"""\
name: {POOL}
checkpoint: {CHECKPOINT}
dllm:
  modes: dllm-demo
  mode: quality
"""


class Member(Service):
    """One process of a fleet.

    Attributes:
        probe: answers 200 once the process serves; None for Valkey.
    """

    def __init__(
        self, name: str, argv: list[str], folder: Path, *, probe: str | None, env: dict[str, str]
    ) -> None:
        super().__init__(name, argv, env=env, log=folder / f"{name}.log", stop_s=30)
        self.probe = probe

    def runs(self, argv: list[str]) -> None:
        """This command instead, from its next start on."""
        self._argv = argv

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def kill(self) -> None:
        """kill -9."""
        if self.running:
            assert self._process is not None
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()


@dataclass(frozen=True)
class Size:
    gateways: int = 1
    routers: int = 1
    workers: int = 1  # each with a simulator of its own


@dataclass
class Fleet:
    """Use as an async context manager: its processes then serve, and are gone afterwards.

    Args:
        pace: arguments of each simulator.
        env: settings of the services, as environment variables.
        durable: Valkey keeps an append-only file.
        engines: URLs of simulators that are there already, of the first workers.

    Attributes:
        folder: of the logs; gone afterwards, unless there was an exception or it is to be kept.
    """

    size: Size = Size()
    pace: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    durable: bool = False
    engines: list[str] = field(default_factory=list)
    keep: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fleet-"))
        self.members: dict[str, Member] = {}
        self.gateways: list[str] = []  # URLs
        self.simulators: list[str] = []
        self._data = self.folder / "valkey"
        self._data.mkdir()
        model = self.folder / "model.yaml"
        model.write_text(MODEL_WITH_MODES if "--table" in self.pace else MODEL)
        port = free_port()
        self.redis_url = f"redis://127.0.0.1:{port}/0"
        self.env = {"DLLM_REDIS__URL": self.redis_url, "DLLM_WORKER__MODEL": str(model)} | self.env
        argv = valkey.command(port, self._data)
        self._add("valkey", [*argv, "--appendonly", "yes"] if self.durable else argv, None)
        for number in range(self.size.workers):
            if number < len(self.engines):
                url = self.engines[number]
            else:
                engine, url = simulator(f"simulator-{number}", self.pace, self.folder)
                self.members[engine.name] = engine
            self.simulators.append(url)
            self._service("worker", number, DLLM_WORKER__ENGINE_URL=url)
        for number in range(self.size.routers):
            self._service("router", number)
        self.gateways = [
            self._service("gateway", number, DLLM_ADMIN__PORT="0") for number in range(self.size.gateways)
        ]

    async def __aenter__(self) -> Self:
        try:
            for member in self.members.values():
                await member.start()
            await self.serves()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()
        if error is None and not self.keep:
            shutil.rmtree(self.folder)

    async def serves(self, *names: str) -> None:
        """Waits until these members are ready, or all of them.

        Raises:
            TimeoutError
        """
        await asyncio.gather(*(ready(self.members[name]) for name in names or self.members))

    async def lose_data(self) -> None:
        """Valkey is killed, and comes back empty."""
        await self.members["valkey"].kill()
        shutil.rmtree(self._data)
        self._data.mkdir()
        await self.members["valkey"].start()

    def named(self, kind: str) -> list[str]:
        return [name for name in self.members if name.startswith(kind)]

    def _service(self, kind: str, number: int, **env: str) -> str:
        url = f"http://127.0.0.1:{(port := free_port())}"
        argv = [sys.executable, "-m", "dllm_stack.cli", kind]
        self._add(f"{kind}-{number}", argv, f"{url}/readyz", {f"DLLM_{kind.upper()}__PORT": str(port)} | env)
        return url

    def _add(self, name: str, argv: list[str], probe: str | None, env: dict[str, str] | None = None) -> None:
        self.members[name] = Member(name, argv, self.folder, probe=probe, env=self.env | (env or {}))

    async def _end(self) -> None:
        hurry = asyncio.Event()
        hurry.set()
        for member in reversed(self.members.values()):
            await member.stop(hurry)


def simulator(name: str, pace: list[str], folder: Path) -> tuple[Member, str]:
    """A simulator and its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    argv = [sys.executable, "-m", "loadtest.simulator", "--port", str(port), *pace]
    return Member(name, argv, folder, probe=f"{url}/health", env={}), url


async def ready(member: Member) -> None:
    """Waits until it serves.

    Raises:
        TimeoutError
    """
    if member.probe is None:
        return
    async with asyncio.timeout(START_S), aiohttp.ClientSession() as http:
        while not await _is_ok(http, member.probe):  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)


async def redis_up(settings: RedisSettings) -> None:
    """Waits until Redis answers.

    Raises:
        TimeoutError
    """
    connections = Connections(settings)
    try:
        async with asyncio.timeout(START_S):
            while True:
                try:
                    return await connections.ping()
                except RedisError:
                    await asyncio.sleep(_POLL_S)
    finally:
        await connections.aclose()


async def _is_ok(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(url) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False
