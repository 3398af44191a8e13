"""A herd of clients that ask for long answers, and leave. Do the engines stop working for them?"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import aiohttp

from loadtest.versus.chat import Chat, text
from loadtest.versus.connection import Answer, ask_once
from loadtest.versus.trial import falls, load

HERD, HONEST = 48, 4  # clients; of the herd one half streams
_LONG, _SHORT = 24, 4  # blocks of an answer; so a long one takes 6 s
STAY_S, WITHIN_S = 1.5, 5.0
_AFTER_S = 1.0


@dataclass(frozen=True)
class Herd:
    """
    Attributes:
        freed_s: from the herd's leaving to when the engines have no requests but the honest clients';
            infinite if that takes too long.
        left: requests of the herd that the engines still have after 1 s.
        right, asked: answers to the honest clients, who stream on, and their requests.
    """

    freed_s: float
    left: int
    right: int
    asked: int


async def herd(url: str, engines: list[str], stay_s: float = STAY_S, within_s: float = WITHIN_S) -> Herd:
    """
    Args:
        stay_s: how long the herd stays.
        within_s: how long the engines are given.
    """
    stop = asyncio.Event()
    chats = [await Chat.numbered(number) for number in range(HONEST)]
    long = await Chat.numbered(HONEST)
    honest = [asyncio.create_task(_honest(url, chat, stop)) for chat in chats]
    async with aiohttp.ClientSession() as http:
        crowd = [
            asyncio.create_task(ask_once(url, long.request(_LONG, stream=number % 2 == 0)))
            for number in range(HERD)
        ]
        await asyncio.sleep(stay_s)
        for client in crowd:
            client.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
        began = time.monotonic()
        freed = asyncio.create_task(falls(http, engines, HONEST, within_s))
        await asyncio.sleep(began + _AFTER_S - time.monotonic())
        left = max((await load(http, engines)).requests - HONEST, 0)
        freed_s = await freed
        stop.set()
        answers = [each for client in await asyncio.gather(*honest) for each in client]
    right = sum(text(answer, stream=True) == chat.answer(_SHORT) for chat, answer in answers)
    return Herd(freed_s, left, right, len(answers))


async def _honest(url: str, chat: Chat, stop: asyncio.Event) -> list[tuple[Chat, Answer]]:
    answers = []
    while not stop.is_set():
        answers.append((chat, await ask_once(url, chat.request(_SHORT, stream=True))))
    return answers
