"""Figures against numbers by hand, and the definitions of `sglang.bench_serving` written down plainly."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dllm_stack.bench.metrics import Spread, figures
from dllm_stack.bench.records import INTERRUPTED, Blocks, Chunk, Record


def record(number: int, sent_s: float, chunks: Sequence[tuple[float, int | None]], **more: Any) -> Record:
    """Answered whole; it ends with its last chunk."""
    tokens = sum(count or 0 for _, count in chunks)
    values: dict[str, Any] = {
        "tenant": "",
        "model": "m",
        "local_prompt_tokens": 10,
        "prompt_tokens": 12,
        "asked_tokens": 64,
        "output_tokens": tokens,
        "latency_s": chunks[-1][0] if chunks else 0.0,
    }
    return Record(number=number, sent_s=sent_s, chunks=[Chunk(*each) for each in chunks], **(values | more))


def test_two_requests_by_hand() -> None:
    first = record(0, 0.0, [(0.1, 8), (0.2, 32), (0.4, 8)], latency_s=0.5)
    second = record(1, 1.0, [(0.3, 2)], latency_s=0.3)
    found = figures([first, second], duration_s=2.0)
    assert (found.completed, found.input_tokens, found.local_input_tokens, found.output_tokens) == (
        2,
        24,
        20,
        50,
    )
    assert (found.request_rate, found.output_rate, found.total_rate) == (1.0, 25.0, 37.0)
    assert found.concurrency == pytest.approx(0.8 / 2)
    assert found.ttft_ms is not None
    assert [found.ttft_ms.mean, found.ttft_ms.std] == pytest.approx([200, 100])
    assert found.tpot_ms is not None
    assert found.tpot_ms.mean == pytest.approx((400 / 47 + 0) / 2)
    assert found.itl_ms is not None
    assert found.itl_ms.count == 40
    assert found.itl_ms.mean == pytest.approx((32 * (100 / 32) + 8 * (200 / 8)) / 40)
    assert [found.itl_ms.median, found.itl_ms.max] == pytest.approx([100 / 32, 25])
    blocks = found.blocks
    assert blocks.chunk_gap_ms is not None
    assert blocks.chunk_gap_ms.mean == pytest.approx(150)
    assert blocks.chunk_tokens is not None
    assert (blocks.chunk_tokens.mean, blocks.chunk_tokens.count) == (12.5, 4)
    assert (found.peak_output_rate, found.peak_concurrency) == (41, 1)


def test_what_was_not_answered_is_counted_by_its_error() -> None:
    failed = [
        record(2, 0.0, [(0.1, 8)], error="429 queue_full"),
        record(3, 0.0, [], error="429 queue_full"),
        record(4, 0.0, [], error="timeout"),
        record(5, 0.0, [], error=INTERRUPTED),
    ]
    found = figures([record(1, 0.0, [(0.1, 8)]), *failed], duration_s=1.0)
    assert (found.sent, found.completed, found.interrupted) == (5, 1, 1)
    assert found.errors == {"429 queue_full": 2, "timeout": 1}
    assert found.output_tokens == 8
    nothing = figures(failed, duration_s=1.0)
    assert (nothing.completed, nothing.ttft_ms, nothing.peak_output_rate) == (0, None, 0.0)


def test_where_the_server_tells_no_tokens() -> None:
    """A chunk counts once between two, an answer as what was asked for; and both are said."""
    untold = record(0, 0.0, [(0.1, None), (0.3, None)], output_tokens=None, prompt_tokens=None)
    found = figures([untold], duration_s=1.0)
    assert (found.uncounted, found.unnumbered, found.output_tokens, found.input_tokens) == (1, 1, 64, 10)
    assert found.itl_ms is not None
    assert [found.itl_ms.count, found.itl_ms.mean] == pytest.approx([1, 200])
    assert found.blocks.chunk_tokens is None


def test_an_answer_without_a_token_has_no_time_to_one() -> None:
    empty = record(0, 0.0, [], output_tokens=0, latency_s=0.2)
    found = figures([empty, record(1, 0.0, [(0.1, 4)])], duration_s=1.0)
    assert found.ttft_ms is not None
    assert [found.ttft_ms.count, found.ttft_ms.mean] == pytest.approx([1, 100])
    assert found.e2e_ms is not None
    assert found.e2e_ms.count == 2


def test_tokens_per_forward_are_of_sums() -> None:
    costs = [Blocks(2, 40, 10, 8, 2), Blocks(1, 32, 2, 1, 0), Blocks(1, 8, None, None, None)]
    found = figures([record(n, 0.0, [(0.1, 8)], blocks=each) for n, each in enumerate(costs)], 1.0).blocks
    assert (found.blocks, found.forwards, found.edits) == (4, 12, 2)
    assert found.tokens_per_forward == 72 / 12
    assert found.request_tokens_per_forward is not None
    assert found.request_tokens_per_forward.mean == (4 + 16) / 2
    assert found.steps_per_block == 9 / 3


def drawn(dice: random.Random) -> list[Record]:
    records = []
    for number in range(60):
        at, chunks = dice.uniform(0.02, 2.0), []
        for _ in range(dice.randint(1, 12)):
            chunks.append((at, dice.randint(1, 32)))
            at += dice.expovariate(10)
        last = chunks[-1][0] + dice.uniform(0, 0.05)
        records.append(record(number, dice.uniform(0, 5), chunks, latency_s=last))
    return records


@pytest.mark.parametrize("seed", range(5))
def test_any_run_equals_the_plain_definitions(seed: int) -> None:
    """Those of bench_serving's backend `sglang`, in whose terms: latency, ttft, itl and output_len."""
    records, duration = drawn(random.Random(seed)), 9.0
    found = figures(records, duration)
    ttfts = [each.chunks[0].at_s for each in records]
    lengths = [sum(chunk.tokens or 0 for chunk in each.chunks) for each in records]
    tpots = [
        (each.latency_s - ttft) / (length - 1)
        for each, ttft, length in zip(records, ttfts, lengths, strict=True)
        if length > 1
    ]
    itls: list[list[float]] = []
    for each in records:
        itl: list[float] = []
        for before, chunk in zip(each.chunks, each.chunks[1:], strict=False):
            itl.extend([(chunk.at_s - before.at_s) / (chunk.tokens or 0)] * (chunk.tokens or 0))
        itls.append(itl)
    for spread, values in (
        (found.ttft_ms, ttfts),
        (found.tpot_ms, tpots),
        (found.itl_ms, [value for itl in itls for value in itl]),
        (found.e2e_ms, [each.latency_s for each in records]),
    ):
        check(spread, values)
    assert found.output_rate == pytest.approx(sum(lengths) / duration)
    assert found.concurrency == pytest.approx(sum(each.latency_s for each in records) / duration)

    start = min(each.sent_s for each in records)
    seconds = math.ceil(max(each.sent_s + each.latency_s for each in records) - start) + 1
    tokens, requests = [0] * seconds, [0] * seconds
    for each, ttft, itl in zip(records, ttfts, itls, strict=True):
        now = each.sent_s + ttft
        tokens[int(now - start)] += 1
        for value in itl:
            now += value
            tokens[int(now - start)] += 1
        for second in range(int(each.sent_s - start), int(each.sent_s + each.latency_s - start) + 1):
            requests[second] += 1
    assert (found.peak_output_rate, found.peak_concurrency) == (max(tokens), max(requests))


def check(spread: Spread | None, seconds: list[float]) -> None:
    assert spread is not None
    values = [value * 1000 for value in seconds]
    assert spread.mean == pytest.approx(statistics.fmean(values))
    assert spread.std == pytest.approx(statistics.pstdev(values))
    assert spread.max == pytest.approx(max(values))
    assert spread.count == len(values)
    for part, percent in (("median", 50), ("p90", 90), ("p95", 95), ("p99", 99)):
        assert getattr(spread, part) == pytest.approx(float(np.percentile(values, percent)))
