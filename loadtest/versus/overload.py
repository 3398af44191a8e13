"""More than the engines can do, of two tenants, whose requests come whatever becomes of those before."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass

from loadtest.versus.chat import Chat
from loadtest.versus.connection import Answer, ask_once, lost
from loadtest.versus.quantile import milliseconds
from loadtest.versus.trial import CAPACITY

HEAVY, LIGHT = "heavy", "light"
SECONDS, LAST_S = 12.0, 2.0
RATES = {HEAVY: 2 * CAPACITY - 3.0, LIGHT: 3.0}  # requests a second
_BLOCKS = 4


@dataclass(frozen=True)
class Overload:
    """What became of it until the flood's end.

    Attributes:
        ttft_s: of the light tenant's requests. One that has no text yet in the end counts as long as it has
            waited; one that is refused or broken, until the end.
        unanswered: how many of those there are.
        heavy: answers to the other tenant.
    """

    ttft_s: list[float]
    unanswered: int
    heavy: int

    def ms(self, percent: int) -> float:
        return milliseconds(self.ttft_s, percent)


async def overload(url: str, seconds: float = SECONDS, last_s: float = LAST_S) -> Overload:
    """
    Args:
        last_s: of the flood, in which the light tenant sends nothing: what it has sent may still be answered.
    """
    until = time.monotonic() + seconds
    spans = {HEAVY: seconds, LIGHT: seconds - last_s}
    chat = await Chat.numbered(0)
    heavy, light = await asyncio.gather(
        *(
            offer(url, chat.request(_BLOCKS, stream=True, tenant=tenant), rate, spans[tenant], until)
            for tenant, rate in RATES.items()
        )
    )
    end = max(answer.ended for answer in light)
    return Overload(
        [min(answer.first, end) - answer.sent for answer in light],
        sum(answer.first == float("inf") for answer in light),
        sum(answer.whole and answer.status == 200 for answer in heavy),
    )


async def offer(
    url: str, request: bytes, rate: float, seconds: float, until: float | None = None
) -> list[Answer]:
    """Sends `rate` requests a second at random times, each on a connection of its own, and waits for all.

    Args:
        until: monotonic seconds, when those leave that wait for an answer.
    """
    dice, began = random.Random(rate), time.monotonic()
    tasks = []
    for due in sorted(dice.uniform(0, seconds) for _ in range(round(rate * seconds))):
        await asyncio.sleep(began + due - time.monotonic())
        tasks.append(asyncio.create_task(_ask(url, request, until)))
    return await asyncio.gather(*tasks)


async def _ask(url: str, request: bytes, until: float | None) -> Answer:
    sent = time.monotonic()
    try:
        async with asyncio.timeout(None if until is None else until - sent):
            return await ask_once(url, request)
    except TimeoutError:
        return lost(sent)
