"""The demo model: `python -m loadtest.gpu.continuation --out continuation.json`.

Prints

- of so many prompts, how many answers that are cut at a block go on as they would have: asked again with
  the prompt and what was answered so far, at every block of the answer. Each by itself, and all in one
  batch, each prompt in a mode of its own, where an answer and its continuation are in different company;
- the same with SGLang's flag for deterministic inference, and what that flag costs;
- exact answers to held-out questions and tokens per forward, by mode.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from statistics import median
from typing import Any

import aiohttp

from loadtest.gpu import engine, table, variants
from loadtest.gpu.engine import Engine, EngineError
from loadtest.gpu.questions import CHECKPOINT, MODES, Question, Questions

_BLOCK = 32
_ANSWER_TOKENS = 448
_FIRST_ANSWER_S = 60
_COST_ROUNDS = 5
_COST_BATCH = 32
_FORWARDS = "dllm_forwards"  # the engine's statistic, see the extension


@dataclass(frozen=True)
class Continued:
    """
    Attributes:
        equal: prompts of which every continuation is what was cut off.
        cuts, equal_cuts: at all blocks of all prompts.
        same_as_alone: prompts whose whole answer is what it is alone.
    """

    engine: str
    company: str
    prompts: int
    equal: int
    cuts: int
    equal_cuts: int
    same_as_alone: int


@dataclass(frozen=True)
class Score:
    engine: str
    mode: str
    items: int
    exact: int
    tokens: int
    forwards: int
    exact_by_skill: dict[str, int]


@dataclass
class Report:
    """
    Attributes:
        tokens_per_s: of a batch of 32, by engine, for each round.
        failures: why an engine did not run, by its name.
    """

    continued: list[Continued]
    scores: list[Score]
    tokens_per_s: dict[str, list[float]]
    failures: dict[str, str]


def main() -> None:
    parser = table.parser("continuation", __doc__)
    parser.add_argument("--prompts", type=int, default=50)
    parser.add_argument("--items", type=int, default=32, help="of each skill in each language; 0: no scores")
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    parser.add_argument("--slots", type=int, default=variants.SLOTS)
    parser.add_argument("--without-flag", action="store_true", help="no engine with the flag")
    parser.add_argument("--stock-only", action="store_true", help="stock's engine, which has one mode")
    parser.set_defaults(checkpoint=CHECKPOINT)
    arguments = parser.parse_args()
    ours = variants.ours(arguments.slots)
    if arguments.stock_only:
        ours = replace(variants.stock("LowConfidence", arguments.slots), name="ours")
    flagged = [
        replace(variants.ours(arguments.slots, 0, 0, deterministic=True), may_fail=True),
        replace(
            variants.stock("LowConfidence"), name="stock-deterministic", deterministic=True, may_fail=True
        ),
    ]
    with table.machine(arguments) as machine:
        try:
            with engine.started(machine, [ours, *([] if arguments.without_flag else flagged)]) as engines:
                asked = _Asked(engines, arguments.modes)
                report = asyncio.run(asked.report(arguments.prompts, arguments.items))
        except EngineError as error:
            sys.exit(str(error))
    arguments.out.write_text(json.dumps(asdict(report), ensure_ascii=False, indent=1) + "\n", "utf-8")
    _show(report)


class _Asked:
    def __init__(self, engines: Sequence[Engine], modes: Sequence[str]) -> None:
        self._engines, self._modes = engines, modes
        self._questions = Questions()

    async def report(self, prompts: int, items: int) -> Report:
        found = Report([], [], {}, {})
        self._failures = found.failures
        async with aiohttp.ClientSession() as http:
            self._http = http
            able = [each for each in self._engines if await self._answers_at_all(each)]
            questions = self._questions.long(prompts, tokens=2 * _BLOCK)
            for each in able:
                if each.variant.extension or each.variant.name == "ours":
                    print(f"{each.variant.name}: {len(questions)} prompts", file=sys.stderr, flush=True)
                    found.continued += await self._continued(each, questions)
            for _ in range(_COST_ROUNDS):
                for each in able:
                    rates = found.tokens_per_s.setdefault(each.variant.name, [])
                    rates.append(await self._tokens_per_s(each, questions))
            held_out = self._questions.held_out(items) if items else []
            for mode in self._modes if items else ():
                print(f"{mode}: {len(held_out)} items", file=sys.stderr, flush=True)
                found.scores.append(await self._score(able[0], mode, held_out))
        return found

    async def _answers_at_all(self, asked: Engine) -> bool:
        failure = asked.failure
        if failure is None:
            try:
                async with asyncio.timeout(_FIRST_ANSWER_S):
                    await self._ask(asked, [self._questions.long(1, 1)[0].prompt], [self._modes[0]], 1)
            except (EngineError, TimeoutError) as error:
                if not asked.variant.may_fail:
                    raise
                failure = str(error) or f"no answer in {_FIRST_ANSWER_S} s\n{asked.log()}"
        if failure is not None:
            self._failures[asked.variant.name] = failure
        return failure is None

    async def _continued(self, asked: Engine, questions: Sequence[Question]) -> list[Continued]:
        prompts = [each.prompt for each in questions]
        modes = [self._modes[number % len(self._modes)] for number in range(len(prompts))]
        alone = [(await self._ask(asked, [p], [m]))[0] for p, m in zip(prompts, modes, strict=True)]
        together = await self._ask(asked, prompts, modes)
        found = []
        for company, answers in (("alone", alone), ("mixed batch", together)):
            cuts = [
                (number, cut)
                for number, (prompt, answer) in enumerate(zip(prompts, answers, strict=True))
                for cut in range(_BLOCK - len(prompt) % _BLOCK, len(answer), _BLOCK)
            ]
            Random(0).shuffle(cuts)
            begun = [prompts[number] + answers[number][:cut] for number, cut in cuts]
            of_cuts = [modes[number] for number, _ in cuts]
            if company == "alone":
                rests = [(await self._ask(asked, [b], [m]))[0] for b, m in zip(begun, of_cuts, strict=True)]
            else:
                rests = await self._ask(asked, begun, of_cuts)
            # Each was given room for an answer of its own.
            wrong = [
                number
                for (number, cut), rest in zip(cuts, rests, strict=True)
                if rest[: _ANSWER_TOKENS - cut] != answers[number][cut:]
            ]
            found.append(
                Continued(
                    asked.variant.name,
                    company,
                    prompts=len(prompts),
                    equal=len(prompts) - len(set(wrong)),
                    cuts=len(cuts),
                    equal_cuts=len(cuts) - len(wrong),
                    same_as_alone=sum(a == b for a, b in zip(alone, answers, strict=True)),
                )
            )
        return found

    async def _tokens_per_s(self, asked: Engine, questions: Sequence[Question]) -> float:
        prompts = [each.prompt for each in questions[:_COST_BATCH]]
        begin = time.perf_counter()
        answers = await self._ask(asked, prompts, [self._modes[0]] * len(prompts))
        return sum(map(len, answers)) / (time.perf_counter() - begin)

    async def _score(self, asked: Engine, mode: str, items: Sequence[Question]) -> Score:
        answers = await self._answers(asked, [each.prompt for each in items], [mode] * len(items))
        ids = [self._questions.answer(list(answer["output_ids"])) for answer in answers]
        exact = [
            each.skill
            for each, got in zip(items, ids, strict=True)
            if self._questions.text(got) == each.answer
        ]
        return Score(
            asked.variant.name,
            mode,
            items=len(items),
            exact=len(exact),
            tokens=sum(map(len, ids)),
            forwards=sum(sum(answer["meta_info"].get(_FORWARDS, [])) for answer in answers),
            exact_by_skill={skill: exact.count(skill) for skill in dict.fromkeys(exact)},
        )

    async def _ask(
        self, asked: Engine, prompts: Sequence[list[int]], modes: Sequence[str], tokens: int = _ANSWER_TOKENS
    ) -> list[list[int]]:
        answers = await self._answers(asked, prompts, modes, tokens)
        return [self._questions.answer(list(answer["output_ids"])) for answer in answers]

    async def _answers(
        self, asked: Engine, prompts: Sequence[list[int]], modes: Sequence[str], tokens: int = _ANSWER_TOKENS
    ) -> list[dict[str, Any]]:
        plain = {"temperature": 0, "max_new_tokens": tokens}
        sampling = [
            plain | (variants.decided(*MODES[mode]) if asked.variant.extension else {}) for mode in modes
        ]
        return await asked.generate(self._http, prompts, sampling)


def _show(report: Report) -> None:
    table.show(
        ["engine", "company", "go on equal", "of cuts", "whole answer as alone"],
        [
            [
                *(each.engine, each.company, f"{each.equal} of {each.prompts}"),
                *(f"{each.equal_cuts} of {each.cuts}", f"{each.same_as_alone} of {each.prompts}"),
            ]
            for each in report.continued
        ],
    )
    table.show(
        ["engine", f"tok/s, batch of {_COST_BATCH}"],
        [[name, f"{median(rates):.0f}"] for name, rates in report.tokens_per_s.items()],
    )
    table.show(
        ["mode", "exact", "tokens per forward"],
        [
            [
                each.mode,
                f"{each.exact}/{each.items} {each.exact / each.items:.1%}",
                each.tokens / each.forwards if each.forwards else "",
            ]
            for each in report.scores
        ],
    )
    for name, failure in report.failures.items():
        print(f"{name} did not run:\n{failure[-1500:]}\n")


if __name__ == "__main__":
    main()
