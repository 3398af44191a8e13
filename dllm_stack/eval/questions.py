"""Questions with their answers, and what is asked for each."""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from dllm_stack.bench import json_lines
from dllm_stack.bench.endpoints import CHAT, GENERATE, Endpoint
from dllm_stack.bench.problem import Problem

OWN = Path(__file__).with_name("arithmetic.jsonl")
STOP = ["Question", "Assistant:", "<|separator|>"]  # few_shot_gsm8k's


class Question(msgspec.Struct, frozen=True):
    """As GSM8K has it: the number that ends the answer is the result."""

    question: str
    answer: str


class Form(StrEnum):
    """One text of questions and answers, to be continued by /generate, as few_shot_gsm8k asks; or a chat, in
    which the examples are earlier turns."""

    COMPLETION = "completion"
    CHAT = "chat"


@dataclass(frozen=True)
class Exam:
    """
    Args:
        shots: so many of the first questions are shown with their answers before each.

    Attributes:
        digest: of the file.
    """

    questions: list[Question]
    shots: int
    form: Form
    max_new_tokens: int
    digest: str

    @property
    def endpoint(self) -> Endpoint:
        return GENERATE if self.form is Form.COMPLETION else CHAT

    def body(self, number: int, model: str) -> dict[str, Any]:
        examples, question = self.questions[: self.shots], self.questions[number].question
        if self.form is Form.COMPLETION:
            shown = "".join(f"Question: {each.question}\nAnswer: {each.answer}\n\n" for each in examples)
            sampling = {"temperature": 0.0, "max_new_tokens": self.max_new_tokens, "stop": STOP}
            return {
                "model": model,
                "text": f"{shown}Question: {question}\nAnswer:",
                "sampling_params": sampling,
            }
        messages = [
            message
            for each in examples
            for message in (
                {"role": "user", "content": each.question},
                {"role": "assistant", "content": each.answer},
            )
        ]
        messages.append({"role": "user", "content": question})
        return {
            "model": model,
            "messages": messages,
            "max_completion_tokens": self.max_new_tokens,
            "temperature": 0.0,
        }

    def label(self, number: int) -> float:
        found = result(self.questions[number].answer)
        assert found is not None
        return found


def result(text: str) -> float | None:
    """The last number of an answer, by few_shot_gsm8k's rule: digits, commas left out, no sign and no point.

    None is its "invalid": there is none, or it begins with a zero.
    """
    digits = re.findall(r"\d+", text.replace(",", ""))
    try:
        return float(ast.literal_eval(digits[-1])) if digits else None
    except OverflowError:  # of a model that repeats itself: a number, though no right one
        return sys.float_info.max
    except (SyntaxError, ValueError):
        return None


def read(file: Path, shots: int, form: Form, max_new_tokens: int) -> Exam:
    """
    Raises:
        Problem
    """
    content = json_lines.read("--data-path", file)
    questions = []
    for where, question in json_lines.records("--data-path", file, content, Question):
        if result(question.answer) is None:
            raise Problem("--data-path", f"{where}: its answer has no number")
        questions.append(question)
    if len(questions) < max(shots, 1):
        raise Problem("--num-shots", f"{file} has {len(questions)} questions, and {shots} are to be shown")
    digest = hashlib.blake2b(content, digest_size=8).hexdigest()
    return Exam(questions, shots, form, max_new_tokens, digest)
