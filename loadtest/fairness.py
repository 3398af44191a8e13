"""A flood beside a light tenant: `python -m loadtest.fairness`.

A heavy tenant sends 50 requests/s, a light one 1 request/s, together twice what the one engine, a simulator,
can do. The same load goes through this stack and through other projects' gateways. Of each: the light
tenant's TTFT alone and beside the flood, what each tenant got, and how busy the slots were.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from loadtest import peers
from loadtest.fleet import POOL, Fleet, Member, Size, ready, simulator

HEAVY, LIGHT = "heavy", "light"
RATES = {HEAVY: 50.0, LIGHT: 1.0}  # requests a second
TOKENS, BLOCKS = 128, 5  # of an answer, which begins and ends inside a block
SLOTS, BLOCK_S, PREFILL_S = 16, 0.12, 0.027
SERVICE_S = PREFILL_S + BLOCKS * BLOCK_S  # of a request that has a slot; so the engine does 25.5 a second
PACE = ["--slots", f"{SLOTS}", "--block-ms", f"{BLOCK_S * 1000}", "--prefill-ms", f"{PREFILL_S * 1000}"]
ALONE, ALONE_RATE = 40, 4.0  # requests of the light tenant before the flood, and how many a second
WARM_UP = 5
SETTLED_S = 5.0  # of the flood, before utilisation is measured
# A tenant may not fill the pool's queue (1,000 jobs) by itself.
BOUNDS = {"DLLM_QUEUE__TENANTS": '{"default": {"max_waiting_jobs": 500}}'}


@dataclass(frozen=True)
class Asked:
    """One request: seconds from sending it to the first text, and when it ended."""

    tenant: str
    status: int  # HTTP's; 0 without an answer
    ttft_s: float
    ended_at: float  # monotonic


@dataclass(frozen=True)
class Side:
    name: str
    alone: list[Asked]
    asked: list[Asked]
    until: float  # end of the flood, monotonic
    seconds: float
    utilisation: float  # share of the slots' time in which they were busy, during the flood

    def ttft_ms(self, quantile: float) -> float:
        return _quantile([each.ttft_s for each in self._answered(LIGHT)], quantile) * 1000

    def alone_ms(self, quantile: float) -> float:
        return _quantile([each.ttft_s for each in self.alone], quantile) * 1000

    def answered(self, tenant: str) -> int:
        """In the time of the flood."""
        return sum(each.ended_at < self.until for each in self._answered(tenant))

    def refused(self, tenant: str) -> int:
        return sum(each.status != 200 for each in self.asked if each.tenant == tenant)

    def _answered(self, tenant: str) -> list[Asked]:
        return [each for each in self.asked if each.tenant == tenant and each.status == 200]


async def ask(http: aiohttp.ClientSession, url: str, tenant: str, number: int) -> Asked:
    body = {
        "model": POOL,
        "messages": [{"role": "user", "content": f"Request {number}."}],
        "max_tokens": TOKENS,
        "stream": True,
    }
    began, ttft_s = time.monotonic(), 0.0
    async with http.post(
        f"{url}/v1/chat/completions", json=body, headers={"X-Tenant-ID": tenant}
    ) as response:
        async for line in response.content:
            if not ttft_s and line.startswith(b"data: {") and _text(line[6:]):
                ttft_s = time.monotonic() - began
        status = response.status if ttft_s or response.status != 200 else 500
    return Asked(tenant, status, ttft_s, time.monotonic())


async def offer(
    http: aiohttp.ClientSession, url: str, tenant: str, rate: float, requests: int
) -> list[Asked]:
    """Sends requests at random times, whatever becomes of those before, and waits for all."""
    dice, began = random.Random(tenant), time.monotonic()
    tasks = []
    for number, due in enumerate(sorted(dice.uniform(0, requests / rate) for _ in range(requests))):
        await asyncio.sleep(began + due - time.monotonic())
        tasks.append(asyncio.create_task(ask(http, url, tenant, number)))
    return await asyncio.gather(*tasks)


async def measure(name: str, url: str, upstream: str, seconds: float) -> Side:
    """Args: upstream: the simulator's URL."""
    timeout, connector = aiohttp.ClientTimeout(total=None), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
        await offer(http, url, LIGHT, ALONE_RATE, WARM_UP)
        alone = await offer(http, url, LIGHT, ALONE_RATE, ALONE)
        until = time.monotonic() + seconds
        busy = asyncio.create_task(_busy_share(http, upstream, until))
        asked = await asyncio.gather(
            *(offer(http, url, tenant, rate, round(rate * seconds)) for tenant, rate in RATES.items())
        )
        return Side(name, alone, [*asked[0], *asked[1]], until, seconds, await busy)


@asynccontextmanager
async def behind(kind: str) -> AsyncIterator[tuple[str, str]]:
    """A peer in front of a simulator: both URLs."""
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        engine, upstream = simulator("simulator", PACE, Path(folder))
        peer, url = {"sglang-router": peers.sglang_router, "litellm": peers.litellm}[kind](
            upstream, Path(folder)
        )
        members: list[Member] = [engine, peer]
        try:
            for member in members:
                await member.start()
                await ready(member)
            yield url, upstream
        finally:
            for member in reversed(members):
                await member.kill()


async def sides(seconds: float, others: list[str]) -> AsyncIterator[Side]:
    async with Fleet(Size(), pace=PACE, env=BOUNDS) as fleet:
        yield await measure("dllm-stack", fleet.gateways[0], fleet.simulators[0], seconds)
    for name in others:
        async with behind(name) as (url, upstream):
            yield await measure(f"{name} {peers.version(name)}", url, upstream, seconds)


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


def _text(chunk: bytes) -> str | None:
    choices = msgspec.json.decode(chunk).get("choices")
    return choices[0]["delta"].get("content") if choices else None


def _quantile(values: list[float], percent: float) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[round(percent) - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--peers", nargs="*", default=["sglang-router", "litellm"])
    arguments = parser.parse_args()
    raise SystemExit(0 if asyncio.run(run(arguments.seconds, arguments.peers)) else 1)


if __name__ == "__main__":
    main()
