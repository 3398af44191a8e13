"""One of two engines is killed in the middle of its work, and started again. Whose requests are lost?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from loadtest.fleet import Member, ready
from loadtest.versus.chat import Chat, text
from loadtest.versus.connection import ask_once

CLIENTS = 8  # that stream, and as many that do not
SECONDS, KILL_AFTER_S, DOWN_S = 6.0, 1.6, 1.6
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


async def killed(
    url: str,
    engine: Member,
    seconds: float = SECONDS,
    kill_after_s: float = KILL_AFTER_S,
    down_s: float = DOWN_S,
) -> Killed:
    """
    Args:
        engine: the one that is killed.
        seconds: at least; the engine serves again in the end.
        down_s: until it is started again.
    """
    chats = [await Chat.numbered(number) for number in range(2 * CLIENTS)]
    until = time.monotonic() + seconds
    fault = asyncio.create_task(_fault(engine, kill_after_s, down_s))

    def over() -> bool:
        return fault.done() and time.monotonic() > until

    clients = [_client(url, chat, number % 2 == 0, over) for number, chat in enumerate(chats)]
    sent = [each for client in await asyncio.gather(*clients) for each in client]
    await fault
    kinds = [[each for each in sent if each.stream is stream] for stream in (True, False)]
    streams, others = kinds
    return Killed(
        (len(streams), len(others)),
        (sum(not each.right for each in streams), sum(not each.right for each in others)),
        max((each.took_s for each in sent if each.right), default=float("inf")),
    )


async def _fault(engine: Member, kill_after_s: float, down_s: float) -> None:
    await asyncio.sleep(kill_after_s)
    await engine.kill()
    await asyncio.sleep(down_s)
    await engine.start()
    await ready(engine)


async def _client(url: str, chat: Chat, stream: bool, over: Callable[[], bool]) -> list[_Sent]:
    request, right, sent = chat.request(_BLOCKS, stream=stream), chat.answer(_BLOCKS), []
    while not over():
        answer = await ask_once(url, request)
        sent.append(_Sent(stream, text(answer, stream=stream) == right, answer.total_s))
        if not sent[-1].right:
            await asyncio.sleep(_PAUSE_S)
    return sent
