"""How many answers of two GPUs are not those of one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import aiohttp

from loadtest.gpu import variants
from loadtest.gpu.engine import Device, Engine, Variant
from loadtest.gpu.questions import CHECKPOINT, MODES, Questions
from loadtest.gpu.tensor.report import Differing, Report
from loadtest.gpu.tensor.steps import BOTH, ONE, on

_ANSWER_TOKENS = 448
_LEAST_TOKENS = 40  # of an answer, so that there is something to differ
# Flashinfer, which graphs run whatever the backend, would compile for the demo's heads of 64 for minutes.
_OF_DEVICE: dict[Device, tuple[str, ...]] = {
    "cpu": (),
    "cuda": ("--attention-backend=triton", "--cuda-graph-backend-decode=disabled"),
}


def engines(device: Device) -> list[Variant]:
    """Of the demo model: random weights have so many tokens that are equally likely that all would differ."""
    return [
        replace(
            on(gpus, variants.ours(gpus=len(gpus))),
            name=f"demo-tp{len(gpus)}",
            checkpoint=CHECKPOINT,
            arguments=_OF_DEVICE[device],
        )
        for gpus in (ONE, BOTH)
    ]


def compare(engines: Sequence[Engine], count: int, report: Report) -> None:
    """Adds to the report, and shows its table.

    Args:
        engines: of one GPU, and of two.
        count: of prompts.

    Raises:
        EngineError
    """
    report.ids += asyncio.run(_compared(engines, count))
    report.write()
    report.show("ids")


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

        # Either engine has one request at a time, but both have theirs at the same time.
        expected, of_two = await asyncio.gather(alone(one), alone(two))
        again, mixed_of_two = await asyncio.gather(alone(one), together(two))
        seen = {
            "one GPU, again": again,
            "one GPU, all in one batch": await together(one),
            "two GPUs": of_two,
            "two GPUs, all in one batch": mixed_of_two,
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
