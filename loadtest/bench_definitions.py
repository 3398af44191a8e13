"""The figures of a saved run of `dllm-stack bench`, computed again by `sglang.bench_serving`'s own code.

    python -m loadtest.bench_definitions RUN.json

Exit status 1 says that one of them differs. It imports SGLang, which on a CPU needs what the engine needs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sglang.benchmark.datasets import DatasetRow
from sglang.benchmark.serving import RequestFuncOutput, calculate_metrics

from dllm_stack.bench.metrics import Spread
from dllm_stack.bench.records import Record
from dllm_stack.bench.result import Result, load

_PARTS = ("mean", "median", "std", "p90", "p95", "p99")


class _NoTokenizer:
    """Answers' texts are not saved with a run: they are not counted again."""

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return []


def theirs(records: Sequence[Record], duration_s: float) -> Any:
    """Its metrics of what it would have seen: the backend `sglang`, whose chunks have numbers of tokens."""
    outputs, rows = [], []
    for record in records:
        output = RequestFuncOutput(
            success=record.answered,
            latency=record.latency_s,
            ttft=record.ttft_s or 0.0,
            itl=record.token_latencies(),
            output_len=record.generated,
            start_time=record.sent_s,
        )
        outputs.append(output)
        rows.append(DatasetRow(prompt="", prompt_len=record.input_tokens, output_len=record.asked_tokens))
    metrics, _ = calculate_metrics(rows, outputs, duration_s, _NoTokenizer(), "sglang")
    return metrics


def pairs(found: Result) -> Iterator[tuple[str, float, float]]:
    """Each figure's name, our value and theirs."""
    ours = found.figures
    other = theirs(found.records, ours.duration_s)
    yield "completed", ours.completed, other.completed
    yield "total_input", ours.input_tokens, other.total_input
    yield "total_output", ours.output_tokens, other.total_output
    yield "request_throughput", ours.request_rate, other.request_throughput
    yield "input_throughput", ours.input_rate, other.input_throughput
    yield "output_throughput", ours.output_rate, other.output_throughput
    yield "total_throughput", ours.total_rate, other.total_throughput
    yield "max_output_tokens_per_s", ours.peak_output_rate, other.max_output_tokens_per_s
    yield "max_concurrent_requests", ours.peak_concurrency, other.max_concurrent_requests
    yield "concurrency", ours.concurrency, other.concurrency
    spreads: dict[str, Spread | None] = {
        "ttft_ms": ours.ttft_ms,
        "tpot_ms": ours.tpot_ms,
        "itl_ms": ours.itl_ms,
        "e2e_latency_ms": ours.e2e_ms,
    }
    for name, spread in spreads.items():
        assert spread is not None
        for part in _PARTS:
            yield f"{part}_{name}", getattr(spread, part), getattr(other, f"{part}_{name}")
    assert ours.itl_ms is not None
    yield "max_itl_ms", ours.itl_ms.max, other.max_itl_ms


def main() -> None:
    compared = list(pairs(load(Path(sys.argv[1]), "RUN")))
    apart = [
        (name, ours, theirs)
        for name, ours, theirs in compared
        if not math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9)
    ]
    for name, ours, theirs in apart:
        print(f"{name}: ours {ours}, bench_serving's {theirs}")
    print(f"{len(compared) - len(apart)} of {len(compared)} figures are those of bench_serving's own code.")
    sys.exit(bool(apart))


if __name__ == "__main__":
    main()
