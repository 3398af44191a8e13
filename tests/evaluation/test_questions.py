"""What is asked, and what counts as right."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dllm_stack.bench.problem import Problem
from dllm_stack.eval.exam import wilson
from dllm_stack.eval.questions import OWN, STOP, Form, read, result
from models.demo import questions


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12 + 30 = 42\n#### 42", 42),
        ("It costs $1,234.", 1234),
        ("first 7, then 9 apples", 9),
        ("-5", 5),  # a sign is no digit
        ("2.50", 50),  # nor is a point
        ("no number", None),
        ("", None),
        ("agent 007", None),  # no number of Python's
        ("1" * 400, sys.float_info.max),  # no right one, but one
    ],
)
def test_the_result_is_what_few_shot_gsm8k_takes(text: str, number: float | None) -> None:
    assert result(text) == number


def test_the_set_that_ships_is_what_its_maker_writes() -> None:
    assert OWN.read_text("utf-8").splitlines() == list(questions.lines())
    assert len(read(OWN, 5, Form.COMPLETION, 512).questions) == questions.COUNT


def file_of(tmp_path: Path, *pairs: tuple[str, str]) -> Path:
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps({"question": q, "answer": a, "more": 1}) + "\n" for q, a in pairs))
    return file


def test_the_prompt_is_few_shot_gsm8ks(tmp_path: Path) -> None:
    file = file_of(tmp_path, ("One?", "1"), ("Two?", "2"), ("Three?", "3"))
    body = read(file, 2, Form.COMPLETION, 64).body(2, "m")
    assert (
        body["text"] == "Question: One?\nAnswer: 1\n\nQuestion: Two?\nAnswer: 2\n\nQuestion: Three?\nAnswer:"
    )
    assert body["sampling_params"] == {"temperature": 0.0, "max_new_tokens": 64, "stop": STOP}


def test_in_a_chat_examples_are_earlier_turns(tmp_path: Path) -> None:
    exam = read(file_of(tmp_path, ("One?", "1"), ("Two?", "2")), 1, Form.CHAT, 64)
    assert exam.endpoint.path == "/v1/chat/completions"
    assert exam.body(1, "m")["messages"] == [
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "1"},
        {"role": "user", "content": "Two?"},
    ]


def test_a_wrong_file_is_told_by_its_line(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="line 2: its answer has no number"):
        read(file_of(tmp_path, ("One?", "1"), ("Two?", "two")), 1, Form.CHAT, 64)
    with pytest.raises(Problem, match="has 1 questions, and 5 are to be shown"):
        read(file_of(tmp_path, ("One?", "1")), 5, Form.CHAT, 64)
    with pytest.raises(Problem, match="--data-path: /nowhere: No such file"):
        read(Path("/nowhere"), 5, Form.CHAT, 64)
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"question": "One?"}\n')
    with pytest.raises(Problem, match="line 1"):
        read(wrong, 0, Form.CHAT, 64)


def test_the_interval_of_a_share() -> None:
    low, high = wilson(179, 200)
    assert (round(low, 3), round(high, 3)) == (0.845, 0.930)
    assert wilson(0, 10)[0] == 0
    assert wilson(10, 10)[1] == 1
