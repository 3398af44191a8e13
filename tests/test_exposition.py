"""What /metrics says, whichever service it is."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from dllm_stack.exposition import expose_text


def test_no_series_tells_when_another_was_created() -> None:
    registry = CollectorRegistry()
    Counter("jobs", "Jobs.", registry=registry).inc()
    Histogram("wait", "Wait.", registry=registry).observe(1)
    text = expose_text(registry).decode()
    assert "jobs_total 1.0" in text
    assert "wait_count 1.0" in text
    assert "_created" not in text
