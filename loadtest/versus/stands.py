"""What is compared: gateways, each with the processes that it consists of."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import aiohttp
import psutil

from loadtest.fleet import START_S, Fleet, Member, Size, ready, simulator
from loadtest.peers import PEERS
from loadtest.versus.chat import Chat, text
from loadtest.versus.connection import ask_once

DIRECT, OURS = "direct", "dllm-stack"
NAMES = [DIRECT, *PEERS, OURS]
_RETRY_S = 0.2
_TOLD = 300  # bytes of a wrong answer


class UnusableError(Exception):
    """A gateway that does not start, or answers wrongly."""


@dataclass(frozen=True)
class Stand:
    """
    Attributes:
        processes: of the gateway, with all that they have started; none of direct.
    """

    name: str
    version: str
    url: str
    processes: dict[str, psutil.Process] = field(default_factory=dict)

    def cpu_s(self) -> dict[str, float]:
        """Used so far, by process."""
        return {name: sum(map(_cpu_s, _family(process))) for name, process in self.processes.items()}

    def memory(self) -> int:
        """Bytes, what is shared counted once."""
        families = [_family(process) for process in self.processes.values()]
        return sum(_pss(process) for family in families for process in family)


@dataclass
class Engines:
    """Simulators, which can be killed."""

    members: list[Member]
    urls: list[str]


@asynccontextmanager
async def engines(count: int, pace: list[str]) -> AsyncIterator[Engines]:
    folder = Path(tempfile.mkdtemp(prefix="engines-"))
    made = [simulator(f"simulator-{number}", pace, folder) for number in range(count)]
    try:
        for member, _ in made:
            await member.start()
        await asyncio.gather(*(ready(member) for member, _ in made))
        yield Engines([member for member, _ in made], [url for _, url in made])
    finally:
        for member, _ in made:
            await member.kill()
        shutil.rmtree(folder)


@asynccontextmanager
async def stand(name: str, urls: list[str], env: dict[str, str] | None = None) -> AsyncIterator[Stand]:
    """A gateway in front of engines, which answers rightly.

    Args:
        env: settings of ours.

    Raises:
        AbsentError: a peer is not installed.
        UnusableError
    """
    if name == DIRECT:
        yield Stand(name, "", urls[0])
        return
    async with AsyncExitStack() as stack:
        try:
            made = await stack.enter_async_context(
                _ours(urls, env or {}) if name == OURS else _peer(name, urls)
            )
            await _serves(made, urls)
        except TimeoutError as error:
            raise UnusableError(f"{name} does not serve within {START_S:g} s") from error
        yield made


@asynccontextmanager
async def _ours(urls: list[str], env: dict[str, str]) -> AsyncIterator[Stand]:
    async with Fleet(Size(workers=len(urls)), env=env, engines=urls) as fleet:
        processes = {name.removesuffix("-0"): psutil.Process(m.pid) for name, m in fleet.members.items()}
        yield Stand(OURS, version("dllm-stack"), fleet.gateways[0], processes)


@asynccontextmanager
async def _peer(name: str, urls: list[str]) -> AsyncIterator[Stand]:
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        member, url = PEERS[name].member(urls, Path(folder))
        await member.start()
        try:
            await _ready(member)
            yield Stand(name, PEERS[name].version(), url, {name: psutil.Process(member.pid)})
        finally:
            await member.stop(asyncio.Event())


async def _ready(member: Member) -> None:
    probed = asyncio.create_task(ready(member))
    ended = asyncio.create_task(member.wait())
    try:
        await asyncio.wait((probed, ended), return_when=asyncio.FIRST_COMPLETED)
        if not probed.done():
            raise UnusableError(f"{member.name} has ended with {ended.result()}:\n{member.tail()}")
        await probed
    finally:
        probed.cancel()
        ended.cancel()


async def _serves(made: Stand, urls: list[str]) -> None:
    """Some are ready before they know their engines."""
    chat = await Chat.numbered(0)
    request, right, until = chat.request(1, stream=False), chat.answer(1), time.monotonic() + START_S
    async with aiohttp.ClientSession() as http:
        before = [await _completed(http, url) for url in urls]
        while True:
            answers = await asyncio.gather(*(ask_once(made.url, request) for _ in range(2 * len(urls))))
            found = {text(answer, stream=False) for answer in answers}
            after = [await _completed(http, url) for url in urls]
            if found == {right} and all(old < new for old, new in zip(before, after, strict=True)):
                return
            if time.monotonic() > until:
                statuses = {answer.status for answer in answers}
                said = answers[0].body[:_TOLD].decode(errors="replace")
                raise UnusableError(
                    f"{made.name} answers {statuses} {found} instead of {right!r}, at last with {said!r}"
                )
            await asyncio.sleep(_RETRY_S)


async def _completed(http: aiohttp.ClientSession, engine: str) -> int:
    async with http.get(f"{engine}/totals") as response:
        return int((await response.json())["completed"])


def _family(process: psutil.Process) -> list[psutil.Process]:
    """None, if it has died."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.NoSuchProcess:
        return 0
