"""A histogram for the path of every block: it takes many equal values at once, and names the trace of the
last of each bucket."""

from __future__ import annotations

import time
from bisect import bisect_left

from prometheus_client import Histogram as PrometheusHistogram
from prometheus_client.samples import Exemplar


class _Value:
    """What a lock guards in the library."""

    __slots__ = ("exemplar", "sum")

    def __init__(self) -> None:
        self.sum = 0.0
        self.exemplar: Exemplar | None = None

    def inc(self, amount: float) -> None:
        self.sum += amount

    def get(self) -> float:
        return self.sum

    def set_exemplar(self, exemplar: Exemplar) -> None:
        self.exemplar = exemplar

    def get_exemplar(self) -> Exemplar | None:
        return self.exemplar


class Histogram(PrometheusHistogram):
    """The library's, whose `observe` costs as many steps as there are observations, and as buckets below, and
    takes locks. To be added to in one thread: an event loop's. Another may expose it: an observation that
    comes meanwhile may be in the sum and not yet in a bucket, as in the library."""

    def _metric_init(self) -> None:
        super()._metric_init()
        self._sum: _Value = _Value()
        self._buckets: list[_Value] = [_Value() for _ in self._upper_bounds]

    def add(self, value: float, times: int = 1, trace_id: str | None = None) -> None:
        """Counts a value `times` times.

        Args:
            trace_id: of a trace that was sampled; shown with the bucket in OpenMetrics.
        """
        if times < 1:
            return
        bucket = self._buckets[bisect_left(self._upper_bounds, value)]
        self._sum.sum += value * times
        bucket.sum += times
        if trace_id is not None:
            bucket.exemplar = Exemplar({"trace_id": trace_id}, value, time.time())
