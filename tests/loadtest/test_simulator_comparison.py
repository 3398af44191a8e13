"""What the simulator's table is made of, and when it counts as the engine's equal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadtest.gpu.hooks.rounds import Round
from loadtest.margin import margin
from loadtest.simulator.calibration import Step, first, fit, steps
from loadtest.simulator.comparison import Ratio, compare
from loadtest.simulator.load import Answer, Seen

SEEN = Seen(ttft_s=0.1, interval_s=0.2, tokens_per_s=300.0, tokens_per_forward=12.0)


def test_a_steps_time_is_told_apart_from_what_its_context_takes() -> None:
    seen = [Step(1, context, 0.02 + 1e-4 * context) for context in (0, 100, 200)]
    seen += [Step(8, context, 0.10 + 1e-4 * context) for context in (800, 1000, 1800)]
    step_s, context_s = fit(seen)
    assert step_s == pytest.approx({1: 0.02, 8: 0.10})
    assert context_s == pytest.approx(1e-4)
    step_s, context_s = fit([Step(2, 32, 0.3)] * 3)
    assert [step_s[2], context_s] == pytest.approx([0.3, 0])


def test_forwards_with_blocks_of_prompts_are_no_steps() -> None:
    mixed = Round(0.0, 0.3, rows=2, prefix=0, forwards_s=[0.2, 0.1], computed=[(5, 32), (2, 32)])
    pure = Round(0.5, 0.7, rows=2, prefix=32, forwards_s=[0.1, 0.1], computed=[(2, 64), (2, 64)])
    found = steps([mixed, pure])
    assert [(each.rows, each.context) for each in found] == [(2, 64)] * 2
    assert [each.seconds for each in found] == pytest.approx([0.1, 0.1])


def test_of_a_first_block_what_comes_before_and_after_its_steps() -> None:
    answer = Answer(40, asked_at=1.0, blocks=[(1.5, 24), (1.9, 56)], forwards=[2, 2])
    taken = [Round(begin, begin + 0.1, 1, 32, [0.05, 0.05]) for begin in (1.2, 1.35, 1.55)]
    found = first(answer, taken)
    assert [found.before_s, found.after_s] == pytest.approx([0.2, 0.05])


def test_a_margin_is_students() -> None:
    assert margin([1.0]) == float("inf")
    assert margin([1.0, 1.0, 1.0]) == 0
    assert margin([1.0, 3.0]) == pytest.approx(12.71)
    assert margin([1.0, 2.0, 3.0]) == pytest.approx(4.303 / 3**0.5)


def test_rounds_that_rise_and_fall_on_both_sides_are_no_doubt() -> None:
    engine = [1.0, 2.0, 3.0]
    together = Ratio.of(engine, [each * 1.05 for each in engine])
    assert together.value == pytest.approx(1.05)
    assert together.margin == pytest.approx(0, abs=1e-9)
    apart = Ratio.of(engine, [3.15, 2.1, 1.05])
    assert apart.value == pytest.approx(1.05)
    assert apart.margin > 1


@pytest.mark.parametrize(
    ("simulator", "margin", "verdict"),
    [
        (1.05, 0.04, ""),
        (0.95, 0.06, "within, not for sure"),
        (1.12, 0.03, "MORE THAN 10 % APART, not for sure"),
        (0.80, 0.03, "MORE THAN 10 % APART"),
    ],
)
def test_a_verdict_says_how_sure_it_is(simulator: float, margin: float, verdict: str) -> None:
    ratio = Ratio(1.0, simulator, margin)
    assert ratio.verdict == verdict
    assert ratio.good == (not verdict.startswith("MORE"))


def test_all_figures_of_all_loads_must_be_near() -> None:
    engine = {1: [[SEEN], [SEEN]], 4: [[SEEN], [SEEN]]}
    near = replace(SEEN, ttft_s=0.109)
    compared = compare(engine, {1: [[SEEN, near], [near, SEEN]], 4: [[SEEN], [SEEN]]})
    assert compared.good
    assert compared.ratios["first block, ms", 1].simulator == pytest.approx(104.5)
    assert len(list(compared.lines())) == 1 + 4 * 2
    far = replace(SEEN, tokens_per_forward=10.0)
    compared = compare(engine, {1: [[SEEN], [SEEN]], 4: [[far], [far]]})
    assert not compared.good
    assert [line for line in compared.lines() if "MORE" in line] == [
        "tokens a forward           4     12.00     10.00   0.833  +-0.000  MORE THAN 10 % APART"
    ]
