"""The arithmetic of the GPU benchmark; its engines are tried by hand, with `--device cpu`."""

from __future__ import annotations

import json
from dataclasses import astuple
from pathlib import Path

import pytest

from loadtest.gpu import architecture, engine, stack, steps
from loadtest.gpu.engine import EngineError
from loadtest.gpu.hooks import kernels, rounds
from loadtest.gpu.hooks.rounds import Round
from loadtest.gpu.questions import Questions


def test_a_step_is_what_a_run_takes_beside_its_forwards() -> None:
    prompt = Round(0.0, 0.1, rows=2, prefix=0, forwards_s=[0.09])
    arriving = Round(0.2, 0.3, rows=1, prefix=64, forwards_s=[0.09])
    full = [
        Round(begin, begin + 0.10, rows=2, prefix=64, forwards_s=[0.03, 0.05]) for begin in (0.4, 0.51, 0.62)
    ]
    of = steps._of([prompt, arriving, *full], batch=2, prompt=64, tokens=24, begin=0.0, end=0.8)
    assert [of.run_ms, of.step_ms, of.gap_ms] == pytest.approx([50, 10, 5])
    assert of.forwards == 6
    assert [of.tokens_per_s, of.denoised_per_s] == pytest.approx([24 / 0.8, 24 / 0.6])


def test_too_few_whole_rounds_are_no_measurement() -> None:
    with pytest.raises(EngineError, match="1 rounds, 1 with nearly all of 2 requests"):
        steps._of([Round(0, 1, 2, 64, [1.0])], batch=2, prompt=64, tokens=1, begin=0, end=1)


def test_rounds_are_those_between_two_moments(tmp_path: Path) -> None:
    taken = [Round(begin, begin + 1, 1, 0, [0.5]) for begin in range(4)]
    lines = [json.dumps(astuple(each)) for each in taken]
    (tmp_path / "rounds.jsonl").write_text("\n".join(lines) + "\n")
    assert rounds.read(tmp_path, 0.5, 3.5) == taken[1:3]


def test_kernels_that_run_at_once_count_once() -> None:
    assert kernels.union([(5, 6), (0, 2), (1, 3), (1, 2)]) == 4


def test_a_prompt_has_no_special_token(tmp_path: Path) -> None:
    model = architecture.write(tmp_path / "mini")
    ids = engine.prompt(model, 1000, "seed")
    assert len(ids) == 1000
    assert ids == engine.prompt(model, 1000, "seed")
    assert not {156892, 156895} & set(ids)


def test_questions_are_of_several_skills_in_turn() -> None:
    asked = Questions().long(20, tokens=40)
    assert len({each.skill for each in asked[:8]}) > 2
    assert min(each.answer_tokens for each in asked) >= 40


def test_the_stack_is_compared_round_by_round(capsys: pytest.CaptureFixture[str]) -> None:
    load = stack.Load(concurrency=100, prompts=8, input_tokens=1000, output_tokens=1000)

    def found(side: str, *rates: float) -> stack.Found:
        rounds = [dict.fromkeys((*stack.RATES, *stack.TIMES), rate) for rate in rates]
        return stack.Found("mini", side, load, rounds)

    stack.show([found(stack.STACK, 90, 200, 30), found(stack.ENGINE, 100, 200, 40), found(stack.ALONE, 9)])
    rows = capsys.readouterr().out.splitlines()
    [rate] = [row for row in rows if "output_throughput" in row]
    [time] = [row for row in rows if "mean_ttft_ms" in row]
    # Of the rounds 90 of 100, 200 of 200, 30 of 40; and the median of 90 beside 9.
    assert rate == "| output_throughput | 90.00 | 100.00 | 9.00 | 0.90 | 10.00 |"
    assert time == "| mean_ttft_ms | 90.00 | 100.00 | 9.00 | 0.90 | 0.10 |"
