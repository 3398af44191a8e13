"""What /metrics says, whichever service it is."""

from __future__ import annotations

import asyncio
import threading

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dllm_stack.exposition import expose, expose_text


def test_no_series_tells_when_another_was_created() -> None:
    registry = CollectorRegistry()
    Counter("jobs", "Jobs.", registry=registry).inc()
    Histogram("wait", "Wait.", registry=registry).observe(1)
    text = expose_text(registry).decode()
    assert "jobs_total 1.0" in text
    assert "wait_count 1.0" in text
    assert "_created" not in text


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
async def test_an_event_loop_turns_while_metrics_are_written(accept: str) -> None:
    registry, loop, turned = CollectorRegistry(), asyncio.get_running_loop(), threading.Event()

    def value() -> float:
        loop.call_soon_threadsafe(turned.set)
        return turned.wait(60)

    Gauge("waited", "Whether the loop has turned.", registry=registry).set_function(value)
    assert b"waited 1.0" in (await expose(registry, accept)).body
