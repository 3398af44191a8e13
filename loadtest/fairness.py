"""A flood beside a light tenant: `python -m loadtest.fairness`.

A heavy tenant sends 50 requests/s, a light one 1 request/s, together twice what the one engine, a simulator,
can do. The same load goes through this stack and through other projects' gateways. Of each: the light
tenant's TTFT alone and beside the flood, what each tenant got, and how busy the slots were.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp

from loadtest.peers import PEERS, AbsentError
from loadtest.versus.chat import Chat
from loadtest.versus.connection import Answer
from loadtest.versus.overload import HEAVY, LIGHT, offer
from loadtest.versus.quantile import milliseconds
from loadtest.versus.stands import OURS, UnusableError, engines, stand

RATES = {HEAVY: 50.0, LIGHT: 1.0}  # requests a second
BLOCKS = 5  # of an answer
SLOTS, BLOCK_S, PREFILL_S = 16, 0.12, 0.027
SERVICE_S = PREFILL_S + BLOCKS * BLOCK_S  # of a request that has a slot; so the engine does 25.5 a second
PACE = ["--slots", f"{SLOTS}", "--block-ms", f"{BLOCK_S * 1000}", "--prefill-ms", f"{PREFILL_S * 1000}"]
ALONE_RATE = 4.0  # requests a second of the light tenant before the flood
WARM_UP_S, ALONE_S = 1.25, 10.0
SETTLED_S = 5.0  # of the flood, before utilisation is measured
# A tenant may not fill the pool's queue (1,000 jobs) by itself.
BOUNDS = {"DLLM_QUEUE__TENANTS": '{"default": {"max_waiting_jobs": 500}}'}


@dataclass(frozen=True)
class Side:
    """
    Attributes:
        alone: answers to the light tenant before the flood.
        asked: to each tenant, in it.
        until: end of the flood, monotonic.
        utilisation: share of the slots' time in which they were busy, during the flood.
    """

    name: str
    alone: list[Answer]
    asked: dict[str, list[Answer]]
    until: float
    utilisation: float

    def ttft_ms(self, quantile: float) -> float:
        return _ttft_ms(self.asked[LIGHT], quantile)

    def alone_ms(self, quantile: float) -> float:
        return _ttft_ms(self.alone, quantile)

    def answered(self, tenant: str) -> int:
        """In the time of the flood."""
        return sum(each.ended < self.until for each in self.asked[tenant] if _good(each))

    def refused(self, tenant: str) -> int:
        return sum(not _good(each) for each in self.asked[tenant])


async def measure(name: str, url: str, upstream: str, seconds: float) -> Side:
    """Args: upstream: the simulator's URL."""
    chat = await Chat.numbered(0)
    requests = {tenant: chat.request(BLOCKS, stream=True, tenant=tenant) for tenant in RATES}
    await offer(url, requests[LIGHT], ALONE_RATE, WARM_UP_S)
    alone = await offer(url, requests[LIGHT], ALONE_RATE, ALONE_S)
    until = time.monotonic() + seconds
    async with aiohttp.ClientSession() as http:
        busy = asyncio.create_task(_busy_share(http, upstream, until))
        asked = await asyncio.gather(
            *(offer(url, requests[tenant], rate, seconds) for tenant, rate in RATES.items())
        )
        return Side(name, alone, dict(zip(RATES, asked, strict=True)), until, await busy)


async def sides(seconds: float, others: list[str]) -> AsyncIterator[Side]:
    for name in [OURS, *others]:
        async with engines(1, PACE) as behind:
            try:
                async with stand(name, behind.urls, BOUNDS) as made:
                    yield await measure(f"{name} {made.version}", made.url, behind.urls[0], seconds)
            except (AbsentError, UnusableError) as error:
                print(f"skipped: {error}", flush=True)


def fair(side: Side) -> bool:
    return side.ttft_ms(99) <= _limit_ms(side)


def _limit_ms(side: Side) -> float:
    return 1.5 * side.alone_ms(50) + SERVICE_S * 1000


def report(side: Side) -> None:
    print(
        f"{side.name:<20} {side.alone_ms(50):9.0f} {side.alone_ms(99):5.0f} "
        f"{side.ttft_ms(50):12.0f} {side.ttft_ms(99):6.0f} {_limit_ms(side):6.0f}  {side.answered(LIGHT):5} "
        f"{side.answered(HEAVY):6} {side.refused(LIGHT):6} {side.refused(HEAVY):6} {side.utilisation:12.1%}",
        flush=True,
    )


async def run(seconds: float, others: list[str]) -> bool:
    """Whether this stack was fair."""
    print(f"{SLOTS} slots, {SERVICE_S:.3f} s a request: {SLOTS / SERVICE_S:.1f} requests/s.")
    print(
        f"{RATES[HEAVY]:g} + {RATES[LIGHT]:g} requests/s for {seconds:g} s. TTFT of the light tenant in ms;"
    )
    print(f"the limit is 1.5 times its median alone, plus {SERVICE_S * 1000:.0f} ms.\n")
    print(f"{'':<58} {'answered':>13} {'refused':>13}")
    print(f"{'':<20} {'alone p50':>9} {'p99':>5} {'flooded p50':>12} {'p99':>6} {'limit':>6}", end="")
    print(f"{'light':>7} {'heavy':>6} {'light':>6} {'heavy':>6} {'slots busy':>12}")
    first = None
    async for side in sides(seconds, others):
        report(side)
        first = first or side
    assert first is not None
    return fair(first)


async def _busy_share(http: aiohttp.ClientSession, simulator: str, until: float) -> float:
    await asyncio.sleep(SETTLED_S)
    began, before = time.monotonic(), await _busy_s(http, simulator)
    await asyncio.sleep(until - began)
    return (await _busy_s(http, simulator) - before) / (SLOTS * (time.monotonic() - began))


async def _busy_s(http: aiohttp.ClientSession, simulator: str) -> float:
    async with http.get(f"{simulator}/totals") as response:
        return float((await response.json())["busy_s"])


def _good(answer: Answer) -> bool:
    return answer.status == 200 and answer.whole and answer.first != float("inf")


def _ttft_ms(answers: list[Answer], percent: float) -> float:
    return milliseconds([each.ttft_s for each in answers if _good(each)], percent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=["sglang-router", "litellm"])
    arguments = parser.parse_args()
    raise SystemExit(0 if asyncio.run(run(arguments.seconds, arguments.peers)) else 1)


if __name__ == "__main__":
    main()
