"""Two runs side by side: chance is called chance, and a difference a difference."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dllm_stack.bench import compare
from dllm_stack.bench.bootstrap import Values, drawn
from dllm_stack.bench.compare import Difference, differences
from dllm_stack.bench.cost import Cost
from dllm_stack.bench.metrics import figures
from dllm_stack.bench.problem import Problem
from dllm_stack.bench.records import Blocks, Chunk, Record
from dllm_stack.bench.result import Load, Result, save_json


def run(seed: int, slower: float = 1.0, requests: int = 120) -> Result:
    """One at a time, `slower` times as slow as others."""
    dice, records, now = random.Random(seed), [], 0.0
    for number in range(requests):
        at = slower * dice.uniform(0.04, 0.06)
        chunks = []
        for _ in range(5):
            chunks.append(Chunk(at, 32))
            at += slower * dice.uniform(0.02, 0.03)
        latency = chunks[-1].at_s
        records.append(
            Record(
                number=number,
                tenant="",
                model="m",
                sent_s=now,
                latency_s=latency,
                chunks=chunks,
                prompt_tokens=10,
                output_tokens=160,
                local_prompt_tokens=10,
                asked_tokens=160,
                blocks=Blocks(5, 160, 40),
            )
        )
        now += latency
    load = Load(
        backend="sglang",
        url="http://x",
        model="m",
        dataset="random",
        requests=requests,
        rate="inf",
        concurrency=1,
        seed=seed,
        options={"seed": seed},
    )
    cost = Cost(0.1, 0.01, 0.1)
    return Result(
        began="now",
        version="0",
        machine="",
        load=load,
        figures=figures(records, now),
        cost=cost,
        records=records,
    )


def by_name(a: list[Result], b: list[Result]) -> dict[str, Difference]:
    return {each.name: each for each in differences(a, b, 0.95, seed=1)}


def test_two_runs_of_the_same_show_no_difference() -> None:
    found = by_name([run(1)], [run(2)])
    assert {each.verdict for each in found.values()} == {"no difference seen"}
    ttft = found["Median TTFT (ms)"]
    assert ttft.low < ttft.ratio < ttft.high


def test_ten_percent_slower_is_seen_in_times_and_rates() -> None:
    found = by_name([run(1)], [run(2, slower=1.1)])
    for name in ("Mean TTFT (ms)", "Median ITL (ms)", "Mean E2E latency (ms)", "Mean inter-chunk (ms)"):
        assert found[name].verdict == "B is worse"
        assert found[name].low < 1.1 < found[name].high
    rate = found["Output token throughput (tok/s)"]
    assert rate.verdict == "B is worse"
    assert rate.low < 1 / 1.1 < rate.high
    assert found["Mean TPF of a request"].ratio == 1
    assert by_name([run(2, slower=1.1)], [run(1)])["Mean TTFT (ms)"].verdict == "B is better"


def test_chunks_and_answers_that_come_together_have_no_false_difference() -> None:
    """As behind a proxy that keeps all back: no time between chunks, and all in one slice of the run."""
    one = run(1, requests=5)
    for record in one.records:
        record.sent_s, record.latency_s = 0.0, 1.0
        record.chunks = [Chunk(1.0, 32)] * 5
    one.figures = figures(one.records, 1.0)
    found = by_name([one], [one])
    assert {each.verdict for each in found.values()} == {"no difference seen"}
    assert "Mean ITL (ms)" not in found
    assert {"Request throughput (req/s)", "Mean TTFT (ms)"} <= found.keys()


def test_rounds_that_differ_among_themselves_widen_the_interval() -> None:
    steady = [run(seed, requests=30) for seed in range(4)]
    uneven = [run(seed, slower=1 + 0.2 * seed, requests=30) for seed in range(4)]
    wide, narrow = (by_name(steady, side)["Mean TTFT (ms)"] for side in (uneven, steady))
    assert wide.high - wide.low > 5 * (narrow.high - narrow.low)


def test_figures_are_those_of_the_table() -> None:
    one = run(1)
    found = by_name([one], [one])
    assert one.figures.itl_ms is not None
    assert one.figures.ttft_ms is not None
    assert found["P99 ITL (ms)"].a == pytest.approx(one.figures.itl_ms.p99)
    assert found["Median ITL (ms)"].a == pytest.approx(one.figures.itl_ms.median)
    assert found["P99 TTFT (ms)"].a == pytest.approx(one.figures.ttft_ms.p99)
    assert found["Output token throughput (tok/s)"].a == pytest.approx(one.figures.output_rate)


def test_weighted_percentiles_are_those_of_repeated_values() -> None:
    dice, percents = np.random.default_rng(4), (0, 1, 50, 90, 99, 100)
    pairs = [[(float(value), float(dice.integers(1, 6))) for value in dice.normal(size=7)] for _ in range(9)]
    values, counts = Values.of(pairs), drawn([4, 5], 30, dice)
    found = values.figures(counts, percents)
    for sample, of_it in zip(counts, found.T, strict=True):
        repeated = [
            value
            for count, member in zip(sample, pairs, strict=True)
            for value, weight in member
            for _ in range(int(count * weight))
        ]
        assert of_it == pytest.approx([np.mean(repeated), *np.percentile(repeated, percents)])


def test_rounds_are_drawn_whole() -> None:
    counts = drawn([10, 20], 500, np.random.default_rng(1))
    first, second = counts[:, :10].sum(axis=1), counts[:, 10:].sum(axis=1)
    assert {tuple(each) for each in zip(first // 10, second // 20, strict=True)} == {(0, 2), (1, 1), (2, 0)}
    assert set((first % 10) + (second % 20)) == {0}


def test_files_and_folders_are_read_and_what_is_none_is_told(tmp_path: Path) -> None:
    for number in range(2):
        save_json(run(number), tmp_path / f"{number}.json")
    assert [found.load.seed for found in compare.rounds(tmp_path, "A")] == [0, 1]
    lines = list(
        compare.lines(compare.rounds(tmp_path, "A"), compare.rounds(tmp_path / "1.json", "B"), 0.95, 1)
    )
    assert lines[0].startswith("A: m at http://x, 2 rounds, 240 answered")
    assert any("The loads differ: seed 0 / 1" in line for line in lines)

    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    with pytest.raises(Problem, match=r"A: .*wrong.json is no result"):
        compare.rounds(wrong, "A")
    with pytest.raises(Problem, match="No such file"):
        compare.rounds(tmp_path / "none.json", "B")
    (tmp_path / "empty").mkdir()
    with pytest.raises(Problem, match=r"has no \.json"):
        compare.rounds(tmp_path / "empty", "B")
    failed = run(1)
    for record in failed.records:
        record.error = "timeout"
    save_json(msgspec.structs.replace(failed, figures=figures(failed.records, 1.0)), wrong)
    with pytest.raises(Problem, match="no answered request"):
        compare.rounds(wrong, "A")
