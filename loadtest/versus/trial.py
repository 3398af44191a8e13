"""The engines of the trials: two simulators, on which much is going on at once."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import aiohttp

SLOTS, BLOCK_S = 8, 0.25  # of an engine
ENGINES = 2
PACE = ["--slots", f"{SLOTS}", "--block-ms", f"{BLOCK_S * 1000}", "--prefill-ms", "1"]
CAPACITY = ENGINES * SLOTS / (4 * BLOCK_S)  # requests a second, of answers of four blocks
_POLL_S = 0.02
_IDLE_S = 30.0


@dataclass(frozen=True)
class Load:
    """Requests in all engines."""

    running: int
    waiting: int

    @property
    def requests(self) -> int:
        return self.running + self.waiting


async def load(http: aiohttp.ClientSession, urls: list[str]) -> Load:
    found = []
    for url in urls:
        async with http.get(f"{url}/get_load") as response:
            found += await response.json()
    return Load(
        sum(each["num_running_reqs"] for each in found), sum(each["num_waiting_reqs"] for each in found)
    )


async def falls(http: aiohttp.ClientSession, urls: list[str], most: int, within_s: float = _IDLE_S) -> float:
    """Seconds until the engines have at most so many requests; infinite if that takes longer."""
    began = time.monotonic()
    while (await load(http, urls)).requests > most:
        if time.monotonic() - began > within_s:
            return float("inf")
        await asyncio.sleep(_POLL_S)
    return time.monotonic() - began
