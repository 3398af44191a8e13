"""One GPU against two that share the model: `python -m loadtest.gpu.tensor --out tensor.json`.

- steps: as `loadtest.gpu.steps`, stock and ours on one GPU each and on both, asked in turns;
- ids: of so many prompts to the demo model in bfloat16, how many answers differ between one GPU and two.
  Beside it, how many differ when the engine of one GPU is asked again, by itself and in a batch;
- serving: two workers of one GPU each behind the gateway against one of two, the same requests at once.

`--parts` chooses among them: together they take longer than a machine may be lent for.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from loadtest.gpu import engine, serving, steps, table, variants
from loadtest.gpu.engine import Engine, EngineError, Machine, Variant
from loadtest.gpu.questions import CHECKPOINT, MODES, Questions
from loadtest.gpu.serving import Served
from loadtest.gpu.steps import Measurement

_PARTS = ("steps", "ids", "serving")
_ONE, _OTHER, _BOTH = (0,), (1,), (0, 1)
_ANSWER_TOKENS = 448
_LEAST_TOKENS = 40  # of an answer, so that there is something to differ
_FIGURES = ("run_ms", "step_ms", "gap_ms", "tokens_per_s", "denoised_per_s")


@dataclass(frozen=True)
class Case:
    """One row of the table of steps."""

    algorithm: str
    batch: int
    engine: str
    gpus: int
    rounds: list[Measurement]

    def median(self, name: str) -> float:
        return float(median(getattr(each, name) for each in self.rounds))


@dataclass(frozen=True)
class Differing:
    """Answers that are not those of one GPU to each prompt by itself.

    Attributes:
        first: of each answer that differs, the first token that does.
    """

    asked: str
    prompts: int
    differ: int
    first: list[int]


@dataclass
class Report:
    steps: list[Case]
    ids: list[Differing]
    serving: list[Served]


def main() -> None:
    parser = table.parser("tensor", __doc__)
    parser.add_argument("--parts", nargs="+", default=list(_PARTS), choices=_PARTS)
    parser.add_argument("--algorithms", nargs="+", default=list(variants.ALGORITHMS))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=512, help="tokens; whole blocks")
    parser.add_argument("--output", type=int, default=160, help="tokens of an answer")
    parser.add_argument("--prompts", type=int, default=20, help="whose ids are compared")
    parser.add_argument("--requests", type=int, default=512, help="to the gateway, in each round")
    parser.add_argument("--concurrency", type=int, default=64, help="of these requests at once")
    arguments = parser.parse_args()
    report = Report([], [], [])
    with table.machine(arguments) as machine:
        try:
            if "steps" in arguments.parts:
                report.steps = _steps(machine, arguments)
            if "ids" in arguments.parts:
                report.ids = _ids(machine, arguments.prompts)
            if "serving" in arguments.parts:
                load = serving.Load(
                    arguments.requests,
                    arguments.concurrency,
                    arguments.prompt,
                    arguments.output,
                    arguments.rounds,
                )
                report.serving = serving.compare(machine, load)
        except (EngineError, RuntimeError) as error:
            sys.exit(str(error))
    arguments.out.write_text(json.dumps(asdict(report), indent=1) + "\n", "utf-8")
    _show(report)


def on(gpus: tuple[int, ...], variant: Variant) -> Variant:
    return replace(variant, name=f"{variant.name}-tp{len(gpus)}", gpus=gpus)


def _steps(machine: Machine, arguments: Any) -> list[Case]:
    """Four engines at a time: on each GPU one of its own, and on both together two."""
    cases: list[Case] = []
    for algorithm in arguments.algorithms:
        slots = max(arguments.batches)
        stock, ours = variants.stock(algorithm, slots), variants.ours(slots)
        load = steps.Load(
            [algorithm], arguments.batches, arguments.prompt, arguments.output, arguments.rounds, inf, []
        )
        four = [on(_ONE, stock), on(_OTHER, ours), on(_BOTH, stock), on(_BOTH, ours)]
        folder = machine.folder / f"steps-{algorithm}"
        with engine.started(replace(machine, folder=folder), four) as engines:
            cases += asyncio.run(_measured(machine.model, engines, algorithm, load))
    return cases


async def _measured(model: Path, engines: Sequence[Engine], algorithm: str, load: steps.Load) -> list[Case]:
    asked = [(batch, each) for batch in load.batches for each in engines]
    cases = [
        Case(algorithm, batch, each.variant.name, len(each.variant.gpus or _ONE), []) for batch, each in asked
    ]
    async with aiohttp.ClientSession() as http:
        for batch, each in asked:
            await steps.ask(http, model, each, algorithm, batch, load, "warm")
        for number in range(load.rounds):
            turn = list(zip(asked, cases, strict=True))
            for (batch, each), case in turn if number % 2 == 0 else reversed(turn):
                case.rounds.append(await steps.ask(http, model, each, algorithm, batch, load, number))
                print(f"{number} {case.algorithm} {batch} {case.engine} {case.rounds[-1]}", file=sys.stderr)
    return cases


def _ids(machine: Machine, prompts: int) -> list[Differing]:
    """On the demo model: random weights have so many tokens that are equally likely that all would differ."""
    demo = replace(machine, checkpoint=CHECKPOINT, folder=machine.folder / "ids")
    both = [on(gpus, variants.ours()) for gpus in (_ONE, _BOTH)]
    with engine.started(demo, both) as engines:
        return asyncio.run(_compared(engines, prompts))


async def _compared(engines: Sequence[Engine], count: int) -> list[Differing]:
    questions = [each.prompt for each in Questions().long(count, _LEAST_TOKENS)]
    modes = list(MODES.values())
    sampling = [
        {"temperature": 0, "max_new_tokens": _ANSWER_TOKENS, **variants.decided(*modes[number % len(modes)])}
        for number in range(len(questions))
    ]
    one, two = engines
    async with aiohttp.ClientSession() as http:

        async def alone(asked: Engine) -> list[list[int]]:
            answers = [
                await asked.generate(http, [prompt], [how])
                for prompt, how in zip(questions, sampling, strict=True)
            ]
            return [answer[0]["output_ids"] for answer in answers]

        async def together(asked: Engine) -> list[list[int]]:
            return [answer["output_ids"] for answer in await asked.generate(http, questions, sampling)]

        expected = await alone(one)
        seen = {
            "one GPU, again": await alone(one),
            "one GPU, all in one batch": await together(one),
            "two GPUs": await alone(two),
            "two GPUs, all in one batch": await together(two),
        }
    return [differing(asked, answers, expected) for asked, answers in seen.items()]


def differing(asked: str, answers: Sequence[list[int]], expected: Sequence[list[int]]) -> Differing:
    first = [
        next(
            (place for place, (a, b) in enumerate(zip(mine, own, strict=False)) if a != b),
            min(len(mine), len(own)),
        )
        for mine, own in zip(answers, expected, strict=True)
        if mine != own
    ]
    return Differing(asked, len(expected), len(first), first)


def _show(report: Report) -> None:
    if report.steps:
        heads = [
            "algorithm",
            "batch",
            "engine",
            "GPUs",
            "run ms",
            "step ms",
            "gap ms",
            "tok/s",
            "denoising tok/s",
        ]
        table.show(
            [*heads, "x tok/s of one GPU"],
            [
                [case.algorithm, case.batch, case.engine, case.gpus]
                + [case.median(figure) for figure in _FIGURES]
                + [_times_one(case, report.steps)]
                for case in report.steps
            ],
        )
    if report.ids:
        table.show(
            ["not as one GPU answers one by one", "prompts", "differ", "first token, median"],
            [
                [each.asked, each.prompts, each.differ, median(each.first) if each.first else ""]
                for each in report.ids
            ],
        )
    if report.serving:
        table.show(
            ["workers", "GPUs of each", "tok/s", "TTFT ms, median", "TTFT ms, 99 %", "answered"],
            [
                [
                    *(each.workers, each.gpus, each.tokens_per_s, each.ttft_ms, each.ttft_99_ms),
                    f"{each.completed} of {each.requests}",
                ]
                for each in report.serving
            ],
        )


def _times_one(case: Case, cases: Sequence[Case]) -> object:
    name = case.engine.replace("-tp2", "-tp1")
    [one] = [
        each
        for each in cases
        if (each.algorithm, each.batch, each.engine) == (case.algorithm, case.batch, name)
    ]
    return "" if one is case else case.median("tokens_per_s") / one.median("tokens_per_s")


if __name__ == "__main__":
    main()
