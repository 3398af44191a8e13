"""What one process of the simulator can do with nothing before it: a cheap client on another core asks it."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import cast

import aiohttp
import msgspec
import psutil

from loadtest.fleet import Member, ready, simulator
from loadtest.simulator.voice import BLOCK

CLIENTS, BLOCKS = 64, 4
SECONDS = 4.0
STREAMS, STREAM_BLOCK_S, STREAM_TOKENS = 4096, 1.0, 8 * BLOCK
_FILES = 2 * STREAMS
_AT_ONCE = ["--slots", f"{CLIENTS}", "--block-ms", "0", "--prefill-ms", "0"]
_MANY = ["--slots", f"{STREAMS}", "--block-ms", f"{STREAM_BLOCK_S * 1000:g}", "--prefill-ms", "0"]


@dataclass(eq=False)
class _Client(asyncio.Protocol):
    """Sends a request, and another whenever an answer has ended, as long as there is a next one.

    Attributes:
        ends: monotonic seconds of the answers.
        blocks: the same of the events of the answer under way.
    """

    next: Callable[[], bytes | None]
    is_stream: bool
    answers: int = 0
    blocks: list[float] = field(default_factory=list)
    _left: int = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.over = asyncio.get_running_loop().create_future()
        self._ask()

    def data_received(self, data: bytes) -> None:
        if self.is_stream:
            if events := data.count(b"data: {"):
                self.blocks += [time.monotonic()] * events
            ended = data.endswith(b"0\r\n\r\n")
        else:
            if not self._left:
                head, _, rest = data.partition(b"\r\n\r\n")
                self._left = int(head.partition(b"content-length: ")[2]) - len(rest)
            else:
                self._left -= len(data)
            ended = not self._left
        if ended:
            self.answers += 1
            self._ask()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.over.done():
            self.over.set_exception(error or ConnectionResetError())

    def _ask(self) -> None:
        if (request := self.next()) is not None:
            self.transport.write(request)
        elif not self.over.done():
            self.over.set_result(None)
            self.transport.close()


@asynccontextmanager
async def _started(pace: list[str], folder: Path) -> AsyncIterator[tuple[psutil.Process, str]]:
    member, url = simulator("alone", pace, folder)
    members: list[Member] = [member]
    await member.start()
    try:
        await ready(member)
        yield psutil.Process(member.pid), url
    finally:
        await members[0].kill()


def _chat(text: str, *, stream: bool, tokens: int = BLOCKS * BLOCK) -> bytes:
    messages = [{"role": "user", "content": text}]
    body = msgspec.json.encode({"model": "m", "messages": messages, "max_tokens": tokens, "stream": stream})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: simulator\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _filling(url: str) -> str:
    """A text whose prompt ends with a block, so that an answer of four blocks has no fifth."""
    async with aiohttp.ClientSession() as http:
        for words in range(1, 2 * BLOCK):
            text = "a " * words
            body = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": text}]}
            async with http.post(f"{url}/v1/chat/completions", json=body) as response:
                if (await response.json())["usage"]["prompt_tokens"] % BLOCK == 0:
                    return text
    raise RuntimeError("no prompt ends with a block")


async def _ask(url: str, clients: list[_Client]) -> None:
    loop = asyncio.get_running_loop()
    port = int(url.rpartition(":")[2])
    made = [loop.create_connection(lambda client=client: client, "127.0.0.1", port) for client in clients]  # type: ignore[misc]
    await asyncio.gather(*made)
    await asyncio.gather(*(client.over for client in clients))


async def requests(
    name: str, url: str, process: psutil.Process, text: str, *, stream: bool, new: bool
) -> None:
    """As fast as it can. Args: new: every chat is one that it has not seen."""
    until, number = time.monotonic() + SECONDS, 0

    def following() -> bytes | None:
        nonlocal number
        if time.monotonic() > until:
            return None
        number += 1
        return _chat(f"{text}{number}" if new else text, stream=stream)

    clients = [_Client(following, stream) for _ in range(CLIENTS)]
    began, before = time.monotonic(), _cpu_s(process)
    await _ask(url, clients)
    took, cpu_s = time.monotonic() - began, _cpu_s(process) - before
    answers = sum(client.answers for client in clients)
    print(
        f"{name:<34} {answers / took:>8.0f} requests/s  {1000 * cpu_s / answers:.3f} CPU ms a request",
        flush=True,
    )


async def streams(url: str, process: psutil.Process, text: str) -> None:
    """Very many at once, at a steady pace: what it costs, and whether it is kept."""
    clients = []
    for _ in range(STREAMS):
        left = [_chat(text, stream=True, tokens=STREAM_TOKENS)]
        clients.append(_Client(lambda left=left: left.pop() if left else None, True))  # type: ignore[misc]
    began, before = time.monotonic(), _cpu_s(process)
    await _ask(url, clients)
    took, cpu_s = time.monotonic() - began, _cpu_s(process) - before
    gaps = [
        after - b for client in clients for b, after in zip(client.blocks, client.blocks[1:], strict=False)
    ]
    blocks = sum(len(client.blocks) for client in clients)
    middle = quantiles(gaps, n=100)
    print(
        f"{STREAMS} slots, a block every {STREAM_BLOCK_S:g} s: {blocks / took:.0f} blocks/s, "
        f"{cpu_s / took:.0%} of a core, {1e6 * cpu_s / blocks:.0f} CPU us a block; "
        f"between blocks p1 {middle[0]:.3f} s, p50 {middle[49]:.3f} s, p99 {middle[98]:.3f} s",
        flush=True,
    )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def run(folder: Path) -> None:
    print(f"\none process, {CLIENTS} clients, answers of {BLOCKS} blocks of {BLOCK} tokens, no pace at all")
    async with _started(_AT_ONCE, folder) as (process, url):
        text = await _filling(url)
        for name, stream, new in [
            ("JSON, a chat it has seen", False, False),
            ("stream, a chat it has seen", True, False),
            ("JSON, chats it has not seen", False, True),
        ]:
            await requests(name, url, process, text, stream=stream, new=new)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(_FILES, hard)), hard))
    async with _started(_MANY, folder) as (process, url):
        await streams(url, process, await _filling(url))
