"""Figures of a run. Those that `sglang.bench_serving` prints have its names and its definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from dllm_stack.bench.records import INTERRUPTED, Record


class Spread(msgspec.Struct, frozen=True):
    """Of some values; percentiles interpolate linearly, the deviation is the population's."""

    mean: float
    median: float
    std: float
    p90: float
    p95: float
    p99: float
    max: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """None of no values."""
        if not values:
            return None
        array = np.asarray(values, dtype=float)
        median, p90, p95, p99 = (float(each) for each in np.percentile(array, (50, 90, 95, 99)))
        return cls(
            float(array.mean()), median, float(array.std()), p90, p95, p99, float(array.max()), len(array)
        )


class BlockFigures(msgspec.Struct, frozen=True):
    """What a diffusion model's answers are made of.

    Attributes:
        chunk_gap_ms: from one event that brought tokens to the next.
        chunk_tokens: of each such event, the first included; None where the server tells only sums.
        forwards: of the model, over all answers whose cost the server told; prompts left out.
        tokens_per_forward: all tokens by all forwards (TPF).
        request_tokens_per_forward: the same of each request.
        edits: tokens replaced after they were committed.
    """

    chunk_gap_ms: Spread | None
    chunk_tokens: Spread | None
    blocks: int | None
    forwards: int | None
    tokens_per_forward: float | None
    request_tokens_per_forward: Spread | None
    steps_per_block: float | None
    edits: int | None


class Figures(msgspec.Struct, frozen=True):
    """Times are in milliseconds, rates a second.

    Attributes:
        input_tokens, output_tokens: as the server counts them.
        local_input_tokens: as the tokenizer here counts the prompts.
        retokenized: tokens of the answers' texts, by the tokenizer here; None without one.
        uncounted: answers of which the server told no number: each counts as what it was asked for.
        unnumbered: answers whose chunks have no number of tokens: each chunk counts as one token between two.
        peak_output_rate: in the best second. A first chunk counts as one token, as in bench_serving.
        peak_concurrency: requests that had a part in the same second.
        concurrency: on average.
        late_ms: by which requests were sent after they were due.
        errors: how many of each kind.
    """

    sent: int
    completed: int
    interrupted: int
    duration_s: float
    input_tokens: int
    local_input_tokens: int
    output_tokens: int
    retokenized: int | None
    uncounted: int
    unnumbered: int
    request_rate: float
    input_rate: float
    output_rate: float
    total_rate: float
    peak_output_rate: float
    peak_concurrency: int
    concurrency: float
    e2e_ms: Spread | None
    ttft_ms: Spread | None
    tpot_ms: Spread | None
    itl_ms: Spread | None
    late_ms: Spread | None
    blocks: BlockFigures
    errors: dict[str, int]


def figures(records: Sequence[Record], duration_s: float) -> Figures:
    """Of the answered requests; the others are counted by their errors."""
    answered = [record for record in records if record.answered]
    inputs = sum(record.input_tokens for record in answered)
    outputs = sum(record.generated for record in answered)
    retokenized = [record.retokenized for record in answered if record.retokenized is not None]
    errors = Counter(record.error for record in records if record.error is not None)
    interrupted = errors.pop(INTERRUPTED, 0)
    peak_rate, peak_concurrency = _peaks(answered)
    duration_s = max(duration_s, 1e-9)
    return Figures(
        sent=len(records),
        completed=len(answered),
        interrupted=interrupted,
        duration_s=duration_s,
        input_tokens=inputs,
        local_input_tokens=sum(record.local_prompt_tokens for record in answered),
        output_tokens=outputs,
        retokenized=sum(retokenized) if retokenized else None,
        uncounted=sum(record.output_tokens is None for record in answered),
        unnumbered=sum(any(chunk.tokens is None for chunk in record.chunks) for record in answered),
        request_rate=len(answered) / duration_s,
        input_rate=inputs / duration_s,
        output_rate=outputs / duration_s,
        total_rate=(inputs + outputs) / duration_s,
        peak_output_rate=peak_rate,
        peak_concurrency=peak_concurrency,
        concurrency=sum(record.latency_s for record in answered) / duration_s,
        e2e_ms=Spread.of(milliseconds(answered, e2e)),
        ttft_ms=Spread.of(milliseconds(answered, ttft)),
        tpot_ms=Spread.of(milliseconds(answered, tpot)),
        itl_ms=Spread.of(milliseconds(answered, itl)),
        late_ms=Spread.of(
            [(record.sent_s - record.due_s) * 1000 for record in records if record.due_s is not None]
        ),
        blocks=_block_figures(answered),
        errors=dict(errors.most_common()),
    )


def milliseconds(records: Sequence[Record], quantity: Callable[[Record], list[float]]) -> list[float]:
    return [each * 1000 for record in records for each in quantity(record)]


# Each in seconds, of one answered request.


def e2e(record: Record) -> list[float]:
    return [record.latency_s]


def ttft(record: Record) -> list[float]:
    """None, if no token has come: bench_serving counts that as 0."""
    return [] if record.ttft_s is None else [record.ttft_s]


def tpot(record: Record) -> list[float]:
    """The time after the first chunk, over all tokens but one."""
    if record.generated < 2 or record.ttft_s is None:
        return []
    return [(record.latency_s - record.ttft_s) / (record.generated - 1)]


def itl(record: Record) -> list[float]:
    return record.token_latencies()


def _peaks(answered: Sequence[Record]) -> tuple[float, int]:
    """Tokens and requests in the seconds since the first request in which there were most of them."""
    if not answered:
        return 0.0, 0
    start = min(record.sent_s for record in answered)
    end = max(record.sent_s + record.latency_s for record in answered)
    tokens, requests = np.zeros((2, int(np.ceil(end - start)) + 1))
    for record in answered:
        sent = record.sent_s - start
        times = sent + np.cumsum([record.ttft_s or 0.0, *record.token_latencies()])
        np.add.at(tokens, np.minimum(times.astype(int), len(tokens) - 1), 1)
        requests[int(sent) : int(sent + record.latency_s) + 1] += 1
    return float(tokens.max()), int(requests.max())


def _block_figures(answered: Sequence[Record]) -> BlockFigures:
    gaps = [gap for record in answered for gap, _ in record.gaps()]
    sizes = [chunk.tokens for record in answered for chunk in record.chunks if chunk.tokens is not None]
    told = [record.blocks for record in answered if record.blocks is not None]
    costs = [(each.tokens, each.forwards) for each in told if each.forwards]
    forwards = sum(forwards for _, forwards in costs)
    stepped = [each for each in told if each.steps is not None and each.blocks]
    return BlockFigures(
        chunk_gap_ms=Spread.of([gap * 1000 for gap in gaps]),
        chunk_tokens=Spread.of(sizes),
        blocks=sum(each.blocks for each in told) if told else None,
        forwards=forwards or None,
        tokens_per_forward=sum(tokens for tokens, _ in costs) / forwards if forwards else None,
        request_tokens_per_forward=Spread.of([tokens / forwards for tokens, forwards in costs]),
        steps_per_block=(
            sum(each.steps or 0 for each in stepped) / sum(each.blocks for each in stepped)
            if stepped
            else None
        ),
        edits=sum(each.edits or 0 for each in told) if stepped else None,
    )
