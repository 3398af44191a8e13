"""The table "Serving Benchmark Result", as `sglang.bench_serving` prints it, and what is ours below it."""

from __future__ import annotations

from collections.abc import Iterator

from dllm_stack.bench.metrics import Figures, Spread
from dllm_stack.bench.result import Result

_WIDTH = 50
_NONE = "n/a"
_PARTS = ("mean", "median", "p90", "p95", "p99")


def lines(result: Result) -> Iterator[str]:
    yield from _served(result)
    yield from _blocks(result)
    yield from _tenants(result)
    yield from _errors(result.figures)
    yield from _client(result)
    yield "=" * _WIDTH
    yield from notes(result)


def _served(result: Result) -> Iterator[str]:
    """Row for row bench_serving's, of its names."""
    load, found = result.load, result.figures
    yield f"{' Serving Benchmark Result ':=^{_WIDTH}}"
    yield _row("Backend:", load.backend)
    yield _row("Traffic request rate:", load.rate)
    yield _row("Max request concurrency:", load.concurrency or "not set")
    yield _row("Successful requests:", found.completed)
    yield _row("Benchmark duration (s):", found.duration_s)
    yield _row("Total input tokens:", found.input_tokens)
    yield _row("Total input text tokens:", found.input_tokens)
    yield _row("Total generated tokens:", found.output_tokens)
    yield _row("Total generated tokens (retokenized):", found.retokenized)
    yield _row("Request throughput (req/s):", found.request_rate)
    yield _row("Input token throughput (tok/s):", found.input_rate)
    yield _row("Output token throughput (tok/s):", found.output_rate)
    yield _row("Peak output token throughput (tok/s):", found.peak_output_rate)
    yield _row("Peak concurrent requests:", found.peak_concurrency)
    yield _row("Total token throughput (tok/s):", found.total_rate)
    yield _row("Concurrency:", found.concurrency)
    if result.accept_length:
        yield _row("Accept length:", result.accept_length)
    yield _section("End-to-End Latency")
    yield from _spread(found.e2e_ms, "E2E Latency (ms):")
    yield _section("Time to First Token")
    yield from _spread(found.ttft_ms, "TTFT (ms):")
    yield _section("Time per Output Token (excl. 1st token)")
    yield from _spread(found.tpot_ms, "TPOT (ms):")
    yield _section("Inter-Token Latency")
    yield from _spread(found.itl_ms, "ITL (ms):", longest=True)


def _blocks(result: Result) -> Iterator[str]:
    blocks = result.figures.blocks
    if blocks.chunk_gap_ms is not None:
        yield _section("Inter-Chunk Time")
        yield from _spread(blocks.chunk_gap_ms, "inter-chunk (ms):", longest=True)
    if blocks.chunk_tokens is not None:
        yield _section("Tokens per Chunk")
        yield _row("Chunks:", blocks.chunk_tokens.count)
        yield _row("Mean tokens per chunk:", blocks.chunk_tokens.mean)
        yield _row("Median tokens per chunk:", blocks.chunk_tokens.median)
        yield _row("Max tokens per chunk:", blocks.chunk_tokens.max)
    if blocks.blocks is not None:
        yield _section("Blocks")
        yield _row("Committed blocks:", blocks.blocks)
        yield _row("Forwards:", blocks.forwards)
        yield _row("Tokens per forward (TPF):", blocks.tokens_per_forward)
        if blocks.request_tokens_per_forward is not None:
            yield _row("Median TPF of a request:", blocks.request_tokens_per_forward.median)
        yield _row("Steps per block:", blocks.steps_per_block)
        yield _row("Edits:", blocks.edits)


def _tenants(result: Result) -> Iterator[str]:
    if len(result.groups) < 2:
        return
    width = max(len(name) for name in result.groups)
    yield _section("By tenant and model")
    yield f"{'':<{width}}{'done':>8}{'tok/s':>10}{'TTFT p50':>10}{'p99':>10}  ms"
    for name, found in result.groups.items():
        ttft = found.ttft_ms
        times = f"{ttft.median:>10.1f}{ttft.p99:>10.1f}" if ttft else f"{_NONE:>10}{_NONE:>10}"
        yield f"{name:<{width}}{found.completed:>8}{found.output_rate:>10.1f}{times}"


def _errors(found: Figures) -> Iterator[str]:
    if not found.errors and not found.interrupted:
        return
    yield _section("Requests without an answer")
    yield _row("Failed requests:", sum(found.errors.values()))
    for error, count in found.errors.items():
        yield _row(f"  {error}:", count)
    if found.interrupted:
        yield _row("Broken off by you:", found.interrupted)


def _client(result: Result) -> Iterator[str]:
    cost, late = result.cost, result.figures.late_ms
    yield _section("Client")
    yield _row("CPU of the client (% of a core):", cost.share * 100)
    yield _row("CPU of the client (ms a request):", cost.cpu_s * 1000 / max(result.figures.sent, 1))
    yield _row("P99 event loop late (ms):", cost.late_ms)
    if late is not None:
        yield _row("P99 sent after it was due (ms):", late.p99)


def notes(result: Result) -> Iterator[str]:
    """What a reader has to know to take the figures for what they are."""
    found, load = result.figures, result.load
    if result.interrupted:
        yield f"Interrupted: {found.completed} of {load.requests} requests are in these figures."
    if found.input_tokens != found.local_input_tokens:
        yield (
            "Input tokens are the server's count. Without what a chat template adds they are "
            f"{found.local_input_tokens} by the tokenizer here."
        )
    if found.retokenized is not None and found.retokenized != found.output_tokens:
        yield (
            "Generated tokens are the server's count. Retokenized are the texts: end tokens are no text, and "
            "a text can be cut into tokens in several ways."
        )
    if found.uncounted:
        yield f"Of {found.uncounted} answers the server tells no usage: each counts as the tokens asked for."
    if found.unnumbered:
        yield (
            f"In {found.unnumbered} answers the server does not tell the tokens of a chunk: each counts "
            "once in ITL."
        )
    if warning := result.cost.warning(found.ttft_ms.median if found.ttft_ms else None):
        yield f"WARNING: {warning}"


def _spread(spread: Spread | None, name: str, *, longest: bool = False) -> Iterator[str]:
    for part in _PARTS + longest * ("max",):
        value = None if spread is None else getattr(spread, part)
        yield _row(f"{part.capitalize()} {name}", value)


def _section(title: str) -> str:
    return f"{title:-^{_WIDTH}}"


def _row(name: str, value: str | float | None) -> str:
    if value is None:
        value = _NONE
    return f"{name:<40} {value:<10.2f}" if isinstance(value, float) else f"{name:<40} {value:<10}"
