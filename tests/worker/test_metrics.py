"""What a block's work becomes at /metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from dllm_stack.messages import Work
from worker.metrics import WorkerMetrics


def test_blocks_and_what_they_cost() -> None:
    registry = CollectorRegistry()
    metrics = WorkerMetrics(registry, "tiny", "h200-8x")
    metrics.committed(32, Work(forwards=8, steps=7, edits=2))
    metrics.committed(16, Work(forwards=16, steps=16))
    metrics.committed(32, Work())  # an engine that does not tell

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"pool": "tiny", "profile": "h200-8x", **labels})

    assert value("dllm_engine_committed_blocks_total") == 3
    assert value("dllm_engine_committed_tokens_total") == 80
    assert value("dllm_engine_forwards_total") == 24
    assert value("dllm_engine_edits_total") == 2
    assert value("dllm_engine_tokens_per_forward_sum") == 5
    assert value("dllm_engine_tokens_per_forward_bucket", le="1.0") == 1
    assert value("dllm_engine_tokens_per_forward_count") == 2
    assert value("dllm_engine_steps_per_block_sum") == 23
