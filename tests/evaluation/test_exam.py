"""The command against a server that can calculate, a fake: killed, refused and gone on."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from dllm_stack.eval.exam import lines
from dllm_stack.eval.notebook import Done, Notebook

TOKENS = 7


class Calculator:
    """Adds the two numbers of the last question.

    Attributes:
        wrong: questions that it answers wrongly; silent: that it never answers.
    """

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.busy = 0
        self.wrong: set[int] = set()
        self.silent: set[int] = set()

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "calculator"}]})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.busy:
            self.busy -= 1
            error = {"message": "full", "code": "queue_full"}
            return web.json_response({"error": error}, status=429, headers={"Retry-After": "0"})
        body: dict[str, Any] = await request.json()
        first, second = (int(number) for number in re.findall(r"(\d+) \+ (\d+)", body["text"])[-1])
        self.asked.append(first)
        if first in self.silent:
            await asyncio.sleep(60)
        await asyncio.sleep(0.01)
        text = "who knows" if first in self.wrong else f" {first + second}"
        meta = {"completion_tokens": TOKENS, "prompt_tokens": 9, "finish_reason": {"type": "stop"}}
        return web.json_response({"text": text, "meta_info": meta})


@pytest.fixture
def calculator() -> Calculator:
    return Calculator()


@pytest.fixture
async def url(calculator: Calculator) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/v1/models", calculator.models)
    app.router.add_post("/generate", calculator.answer)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "questions.jsonl"
    lines = [{"question": f"{n} + 5", "answer": f"so #### {n + 5}"} for n in range(40)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


async def start(url: str, questions: Path, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dllm_stack.cli", "eval", "--base-url", url, "--data-path", str(questions)),
        *arguments,
        env=os.environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def evaluate(url: str, questions: Path, *arguments: str, status: int = 0) -> tuple[str, str]:
    process = await start(url, questions, *arguments)
    output, errors = (text.decode() for text in await process.communicate())
    assert process.returncode == status, output + errors
    return output, errors


async def test_it_counts(calculator: Calculator, url: str, questions: Path) -> None:
    calculator.wrong, calculator.busy = {3, 4}, 3
    output, _ = await evaluate(url, questions, "--parallel", "8")
    told = output.splitlines()
    assert told[:2] == ["Accuracy: 0.950", "Invalid: 0.050"]
    assert re.fullmatch(r"Latency: \d+\.\d{3} s", told[2])
    assert re.fullmatch(r"Output throughput: \d+\.\d{3} token/s", told[3])
    assert sorted(calculator.asked) == list(range(40))
    assert f"Output tokens: {40 * TOKENS}" in output


def test_the_time_is_that_of_the_questions_counted() -> None:
    notebook = Notebook(None, {})
    for number, (session, at_s) in enumerate([(1, 2.0), (1, 4.0), (2, 30.0)]):
        notebook.done[number] = Done(number, session, at_s, 1.0, 8, "5", 5.0, 5.0)
    assert "Output throughput: 4.000 token/s" in list(lines([0, 1], notebook))
    assert "Latency: 34.000 s" in list(lines([0, 1, 2], notebook))


async def test_killed_it_goes_on_where_it_was(
    calculator: Calculator, url: str, questions: Path, tmp_path: Path
) -> None:
    answers = tmp_path / "answers.jsonl"
    calculator.silent = {20}
    process = await start(url, questions, "--parallel", "1", "--output", str(answers))
    while 20 not in calculator.asked:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    _, errors = await evaluate(url, questions, "--output", str(answers), status=2)
    assert "another dllm-stack eval is writing" in errors
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    with answers.open("ab") as torn:  # as if it had been killed in the middle of a line
        torn.write(b'{"number": 20, "ses')

    calculator.asked, calculator.silent = [], set()
    output, errors = await evaluate(url, questions, "--output", str(answers))
    assert "20 of 40 questions are done" in errors
    assert sorted(calculator.asked) == list(range(20, 40))
    assert output.startswith("Accuracy: 1.000\nInvalid: 0.000\n")
    assert "Sessions: 2" in output
    output, _ = await evaluate(url, questions, "--num-questions", "5", "--output", str(answers))
    assert "Sessions" not in output  # those five are the first one's
    kept = [json.loads(line) for line in answers.read_text().splitlines()]
    assert sorted(line["number"] for line in kept[1:]) == list(range(40))

    _, errors = await evaluate(url, questions, "--num-shots", "2", "--output", str(answers), status=2)
    assert "was begun with num_shots 5, and this has 2" in errors


async def test_what_has_no_answer_is_asked_again(
    calculator: Calculator, url: str, questions: Path, tmp_path: Path
) -> None:
    answers = str(tmp_path / "answers.jsonl")
    calculator.silent = {7}
    output, errors = await evaluate(url, questions, "--timeout", "5", "-o", answers, status=1)
    assert "question 7: TimeoutError" in errors
    assert "Right: 39 of 39" in output
    calculator.silent = set()
    output, _ = await evaluate(url, questions, "-o", answers)
    assert "Right: 40 of 40" in output


def test_it_needs_nothing_that_the_image_of_a_gateway_lacks() -> None:
    lacking = ("matplotlib", "numpy", "psutil", "tokenizers")
    code = f"import sys, dllm_stack.eval.session; print([name for name in {lacking} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
