"""Many equal observations at once are as many observations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client import Histogram as PrometheusHistogram

from dllm_stack.exposition import expose_text
from dllm_stack.histogram import Histogram

BOUNDS = (0.001, 0.01, 0.1)
# At a bound, just beside it, and beyond the last.
VALUES = st.sampled_from([0.0, 0.0005, 0.001, 0.0010000001, 0.01, 0.05, 0.1, 0.2]) | st.floats(0, 1)


@given(st.lists(st.tuples(VALUES, st.integers(0, 64))))
def test_it_counts_as_the_library_does(observed: list[tuple[float, int]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    one = Histogram("x", "X.", ["of"], buckets=BOUNDS, registry=ours).labels("a")
    other = PrometheusHistogram("x", "X.", ["of"], buckets=BOUNDS, registry=theirs).labels("a")
    for value, times in observed:
        one.add(value, times)
        for _ in range(times):
            other.observe(value)
    assert _counts(ours) == _counts(theirs)
    total, expected = (registry.get_sample_value("x_sum", {"of": "a"}) for registry in (ours, theirs))
    assert total is not None
    assert expected is not None
    assert abs(total - expected) <= 1e-9 * max(1, expected)


def _counts(registry: CollectorRegistry) -> list[str]:
    return [line for line in expose_text(registry).decode().splitlines() if not line.startswith("x_sum")]
