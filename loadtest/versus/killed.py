"""One of two engines is killed in the middle of its work, and started again. Whose requests are lost?"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from loadtest.fleet import Member, ready
from loadtest.versus.chat import Chat, text
from loadtest.versus.connection import ask_once

CLIENTS = 8  # that stream, and as many that do not
SECONDS = 6.0
_KILL_AFTER_S, _START_AFTER_S = 1.6, 3.2
_BLOCKS = 4
_PAUSE_S = 0.1  # of a client that got no answer


@dataclass(frozen=True)
class Killed:
    """
    Attributes:
        asked, lost: streams, and requests without; lost is what was not answered whole, and as without
            the fault.
        longest_s: that an answer took.
    """

    asked: tuple[int, int]
    lost: tuple[int, int]
    longest_s: float


@dataclass(frozen=True)
class _Sent:
    stream: bool
    right: bool
    took_s: float


async def killed(url: str, engine: Member, seconds: float = SECONDS) -> Killed:
    """Args: engine: the one that is killed."""
    until = time.monotonic() + seconds
    clients = [
        _client(url, await Chat.numbered(number), number % 2 == 0, until) for number in range(2 * CLIENTS)
    ]
    fault = asyncio.create_task(_fault(engine))
    sent = [each for client in await asyncio.gather(*clients) for each in client]
    await fault
    kinds = [[each for each in sent if each.stream is stream] for stream in (True, False)]
    streams, others = kinds
    return Killed(
        (len(streams), len(others)),
        (sum(not each.right for each in streams), sum(not each.right for each in others)),
        max((each.took_s for each in sent if each.right), default=float("inf")),
    )


async def _fault(engine: Member) -> None:
    await asyncio.sleep(_KILL_AFTER_S)
    await engine.kill()
    await asyncio.sleep(_START_AFTER_S - _KILL_AFTER_S)
    await engine.start()
    await ready(engine)


async def _client(url: str, chat: Chat, stream: bool, until: float) -> list[_Sent]:
    request, right, sent = chat.request(_BLOCKS, stream=stream), chat.answer(_BLOCKS), []
    while time.monotonic() < until:
        answer = await ask_once(url, request)
        sent.append(_Sent(stream, text(answer, stream=stream) == right, answer.total_s))
        if not sent[-1].right:
            await asyncio.sleep(_PAUSE_S)
    return sent
