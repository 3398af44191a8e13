"""What services tell of themselves at /metrics, and what happened between two readings."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

_TIMEOUT_S = 1.0
_SampleKey = tuple[str, tuple[tuple[str, str], ...]]


class Reading:
    """The samples of one /metrics, or the difference of two."""

    def __init__(self, samples: dict[_SampleKey, float]) -> None:
        self._samples = samples

    @classmethod
    def parse(cls, text: str) -> Reading:
        """Raises ValueError when that is no exposition."""
        return cls(
            {
                (sample.name, tuple(sorted(sample.labels.items()))): sample.value
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            }
        )

    def since(self, before: Reading) -> Reading:
        """What counters have gained. A service that began anew has counted from nothing."""
        gained = {}
        for key, value in self._samples.items():
            was = before._samples.get(key, 0.0)
            gained[key] = value - was if value >= was else value
        return Reading(gained)

    def __add__(self, other: Reading) -> Reading:
        total = defaultdict(float, self._samples)
        for key, value in other._samples.items():
            total[key] += value
        return Reading(dict(total))

    def values(self, name: str, label: str) -> set[str]:
        """Those of a label of a metric."""
        return {dict(labels)[label] for (of, labels) in self._samples if of == name and label in dict(labels)}

    def sum(self, name: str, **labels: str) -> float:
        """Over every label that is not named."""
        return sum(
            value
            for (of, has), value in self._samples.items()
            if of == name and labels.items() <= dict(has).items()
        )

    def quantile(self, histogram: str, share: float, **labels: str) -> float | None:
        """As Prometheus' histogram_quantile has it: linear within a bucket. None: nothing was observed."""
        buckets: dict[float, float] = defaultdict(float)
        for (of, has), value in self._samples.items():
            if of == f"{histogram}_bucket" and labels.items() <= dict(has).items():
                buckets[float(dict(has)["le"])] += value
        return _quantile(sorted(buckets.items()), share)


def _quantile(buckets: list[tuple[float, float]], share: float) -> float | None:
    """
    Args:
        buckets: upper bounds, ascending, and how much lies at or below each.
    """
    if not buckets or buckets[-1][1] == 0:
        return None
    rank = share * buckets[-1][1]
    lower = below = 0.0
    for upper, count in buckets:
        if count >= rank:
            if upper == float("inf"):
                break
            return lower + (upper - lower) * (rank - below) / (count - below) if count > below else upper
        lower, below = upper, count
    return lower  # the last bound: more cannot be known


async def read_all(http: aiohttp.ClientSession, urls: Iterable[str]) -> dict[str, Reading | None]:
    """By URL; None: no answer, or none that can be read."""
    urls = [*urls]
    return dict(zip(urls, await asyncio.gather(*(_read(http, url) for url in urls)), strict=True))


async def _read(http: aiohttp.ClientSession, url: str) -> Reading | None:
    try:
        async with http.get(url, timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S)) as response:
            return Reading.parse(await response.text()) if response.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None
