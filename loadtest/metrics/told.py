"""What a service's /metrics says, in numbers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Told:
    """By one histogram, all of its series together."""

    bounds: list[float]
    counts: list[float]  # of each bucket alone
    total: float

    @property
    def count(self) -> float:
        return sum(self.counts)

    def bucket(self, quantile: float) -> int:
        """The one in which it lies."""
        rank, below = quantile * self.count, 0.0
        for place, count in enumerate(self.counts):
            below += count
            if below >= rank:
                return place
        raise AssertionError("a quantile is at most 1")

    def bucket_of(self, value: float) -> int:
        return bisect_left(self.bounds, value)

    def shown(self, bucket: int) -> str:
        low = self.bounds[bucket - 1] if bucket else 0.0
        return f"{1000 * low:g}..{1000 * self.bounds[bucket]:g}"


class Metrics:
    """What a service's /metrics says."""

    def __init__(self, text: str) -> None:
        self._samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]

    def total(self, name: str, **labels: str) -> float:
        return sum(s.value for s in self._samples if s.name == name and labels.items() <= s.labels.items())

    def by(self, name: str, label: str) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for sample in self._samples:
            if sample.name == name:
                found[sample.labels[label]] = found.get(sample.labels[label], 0.0) + sample.value
        return found

    def histogram(self, name: str, **labels: str) -> Told:
        up_to: dict[float, float] = {}
        for sample in self._samples:
            if sample.name == f"{name}_bucket" and labels.items() <= sample.labels.items():
                bound = float(sample.labels["le"])
                up_to[bound] = up_to.get(bound, 0.0) + sample.value
        bounds, sums = sorted(up_to), [up_to[bound] for bound in sorted(up_to)]
        counts = [high - low for low, high in zip([0.0, *sums], sums, strict=False)]
        return Told(bounds, counts, self.total(f"{name}_sum", **labels))

    def since(self, before: Metrics) -> Metrics:
        """What has been added."""
        old = {(s.name, *sorted(s.labels.items())): s.value for s in before._samples}
        added = Metrics("")
        added._samples = [
            s._replace(value=s.value - old.get((s.name, *sorted(s.labels.items())), 0.0))
            for s in self._samples
        ]
        return added
