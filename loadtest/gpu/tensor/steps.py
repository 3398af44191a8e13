"""A denoise step of stock and of ours, on one GPU and on two."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import aiohttp

from loadtest.gpu import steps, variants
from loadtest.gpu.engine import Engine, Variant
from loadtest.gpu.tensor.report import Case, Report

ONE, OTHER, BOTH = (0,), (1,), (0, 1)
_WARM_UP_BLOCKS = 2  # the fewest between which there is a gap
_BLOCK = 32


@dataclass(frozen=True)
class Load:
    """
    Attributes:
        prompt, output: tokens of each request.
    """

    batches: list[int]
    prompt: int
    output: int
    rounds: int


def on(gpus: tuple[int, ...], variant: Variant) -> Variant:
    return replace(variant, name=f"{variant.name}-tp{len(gpus)}", gpus=gpus)


def engines(algorithm: str, slots: int) -> list[Variant]:
    """Four at a time: on each GPU one of its own, and on both together two."""
    stock = variants.stock(algorithm, slots)
    return [
        on(ONE, stock),
        on(OTHER, variants.ours(slots)),
        on(BOTH, stock),
        on(BOTH, variants.ours(slots, gpus=len(BOTH))),
    ]


def measure(
    model: Path, engines: Sequence[Engine], algorithm: str, load: Load, deadline: float, report: Report
) -> None:
    """Adds to the report, round by round, and shows its table at last.

    Args:
        deadline: no round but the first begins after it (time.monotonic).

    Raises:
        EngineError
    """
    asyncio.run(_measure(model, engines, algorithm, load, deadline, report))
    report.show("steps")


async def _measure(
    model: Path, engines: Sequence[Engine], algorithm: str, load: Load, deadline: float, report: Report
) -> None:
    asked = [(batch, each) for batch in load.batches for each in engines]
    cases = [
        Case(
            algorithm,
            batch,
            "ours" if each.variant.extension else "stock",
            len(each.variant.gpus or ONE),
            [],
        )
        for batch, each in asked
    ]
    report.steps += cases
    each_load = steps.Load([algorithm], load.batches, load.prompt, load.output, load.rounds, inf, [])
    short = replace(each_load, output=min(load.output, _WARM_UP_BLOCKS * _BLOCK))
    async with aiohttp.ClientSession() as http:
        for batch, each in asked:
            await steps.ask(http, model, each, algorithm, batch, short, "warm")
        for number in range(load.rounds):
            if number and time.monotonic() > deadline:
                break
            turn = list(zip(asked, cases, strict=True))
            for (batch, each), case in turn if number % 2 == 0 else reversed(turn):
                case.rounds.append(await steps.ask(http, model, each, algorithm, batch, each_load, number))
                report.write()
                print(f"{number} {algorithm} {batch} {each.variant.name} {case.rounds[-1]}", file=sys.stderr)
