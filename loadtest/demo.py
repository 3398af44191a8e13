"""What the demo model can do through the running stack: `python -m loadtest.demo`.

Held-out items of every skill, which the model was never trained on, go to a stack's OpenAI API, all of a
skill's at once, in each way of decoding. Prints exact match, tokens per forward, what each way of decoding
costs in accuracy, and how the model does when asked in words that it was never trained on; the answers to
the prompts that everybody tries; and how many wrong tokens JointThreshold repairs. Exit status 1 says that a
target was missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from loadtest import demo_report
from loadtest.demo_report import DEFAULT, Served
from loadtest.local_stack import LocalStack
from models.demo import checkpoint
from models.demo.chat import Chat
from models.demo.data import corpus
from models.demo.data.example import LANGUAGES, Example, Language, Skill, single
from models.demo.evaluate import ALGORITHMS, SEED_PROMPTS, Evaluation
from models.demo.model import Model
from worker.engine import catalog
from worker.engine.checkpoint import locate

MODEL = "dllm-demo"
_DOCUMENT_TOKENS = 512  # the longest that the model was trained on: prompt, answer and end
_ANSWER_TOKENS = 512
_TIMEOUT_S = 600


@dataclass(frozen=True)
class Answer:
    """
    Attributes:
        tokens: without the end token.
        forwards: those that only stored the prompt left out.
    """

    text: str
    tokens: int
    forwards: int


@dataclass(frozen=True)
class Questions:
    """Of one skill in one language, asked all at once."""

    skill: str
    language: Language
    unseen_wordings: bool
    examples: list[Example]


class Client:
    """Asks a stack by OpenAI's API. Use as a context manager."""

    def __init__(self, stack: LocalStack) -> None:
        self._gateway_url = stack.gateway_url
        self._chat = Chat()

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
            connector=aiohttp.TCPConnector(limit=0),
            raise_for_status=True,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def answer(self, example: Example, algorithm: str) -> Answer:
        way = ALGORITHMS[algorithm]
        dllm = {"algorithm": type(way).__name__, **asdict(way), "stats": True}
        body: dict[str, Any] = {"model": MODEL, "max_tokens": _ANSWER_TOKENS, "dllm": dllm}
        if example.tools:  # whose calls are to be seen as text: their prompt is rendered here
            path, body["prompt"] = "completions", self._chat.render(example)
        else:
            path, body["messages"] = "chat/completions", example.messages
        async with self._http.post(f"{self._gateway_url}/v1/{path}", json=body) as response:
            answer = await response.json()
        (choice,), usage = answer["choices"], answer["usage"]
        return Answer(
            text=choice["text"] if example.tools else choice["message"]["content"],
            tokens=usage["completion_tokens"] - (choice["finish_reason"] == "stop"),
            forwards=answer["dllm"]["forwards"],
        )

    async def score(self, questions: Questions, algorithm: str) -> Served:
        began = time.perf_counter()
        answers = await asyncio.gather(*(self.answer(example, algorithm) for example in questions.examples))
        seconds = time.perf_counter() - began
        pairs = zip(answers, questions.examples, strict=True)
        return Served(
            algorithm,
            questions.skill,
            questions.language,
            items=len(answers),
            exact=sum(answer.text == example.answer for answer, example in pairs),
            tokens=sum(answer.tokens for answer in answers),
            forwards=sum(answer.forwards for answer in answers),
            seconds=seconds,
            unseen_wordings=questions.unseen_wordings,
        )


async def scores(stack: LocalStack, algorithm: str, questions: Sequence[Questions]) -> list[Served]:
    async with Client(stack) as client:
        return [await client.score(each, algorithm) for each in questions]


async def seed_answers(stack: LocalStack) -> dict[str, str]:
    async with Client(stack) as client:
        answers = await asyncio.gather(
            *(client.answer(single(prompt, ""), DEFAULT) for prompt in SEED_PROMPTS)
        )
    return {prompt: answer.text for prompt, answer in zip(SEED_PROMPTS, answers, strict=True)}


def held_out(model: Model, skills: Sequence[Skill], count: int, *, unseen_wordings: bool) -> list[Questions]:
    """Items whose prompt and answer are no longer together than what the model was trained on."""
    evaluation = Evaluation(model, _DOCUMENT_TOKENS, unseen_wordings=unseen_wordings)
    return [
        Questions(skill.name, language, unseen_wordings, evaluation.held_out(skill, language, count))
        for skill in skills
        for language in LANGUAGES
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m loadtest.demo", description=__doc__)
    parser.add_argument("--items", type=int, default=32, help="of each skill in each language")
    parser.add_argument("--skills", nargs="*", default=[], help="all, if none is named")
    parser.add_argument("--algorithms", nargs="*", default=list(ALGORITHMS), choices=list(ALGORITHMS))
    parser.add_argument("--json", type=Path, help="write everything there")
    arguments = parser.parse_args()

    skills = corpus.named(arguments.skills)
    model = checkpoint.load(Path(locate(catalog.load_model(MODEL))))
    seen, unseen = (
        held_out(model, skills, arguments.items, unseen_wordings=unseen) for unseen in (False, True)
    )
    found: list[Served] = []
    answers: dict[str, str] = {}
    with LocalStack(DLLM_WORKER__MODEL=MODEL) as stack:
        for algorithm in arguments.algorithms:
            of_it = asyncio.run(scores(stack, algorithm, seen))
            demo_report.print_scores(of_it)
            found += of_it
            if algorithm == DEFAULT:
                of_it = asyncio.run(scores(stack, algorithm, unseen))
                demo_report.print_scores(of_it)
                found += of_it
                answers = asyncio.run(seed_answers(stack))
    repairs = list(Evaluation(model, _DOCUMENT_TOKENS).repairs(skills, arguments.items))
    targets = demo_report.targets(found, repairs)
    demo_report.print_summary(found, repairs, answers, targets)
    if arguments.json:
        report = {
            "scores": [asdict(score) for score in found],
            "repairs": [asdict(repair) for repair in repairs],
            "seed_answers": answers,
            "targets": [asdict(target) | {"met": target.met} for target in targets],
        }
        arguments.json.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", "utf-8")
    sys.exit(not all(target.met for target in targets))


if __name__ == "__main__":
    main()
