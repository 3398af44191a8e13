"""The same load on SGLang, on this machine's CPU, and on simulators that keep its pace.

How many forwards a block takes is the questions' affair, and what the simulator is told: the table has what
the blocks of this very load took. What it draws from them is a matter of chance, so several simulators draw,
each by a seed of its own, all at once: they need next to no CPU. Each round has other questions, which every
number of clients asks.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import msgspec

from loadtest.fleet import ready, simulator
from loadtest.gpu.engine import Engine, Machine, started
from loadtest.gpu.questions import CHECKPOINT, Questions
from loadtest.simulator.calibration import BATCHES, SLOTS, VARIANT, Calibration
from loadtest.simulator.load import Answer, Seen, together
from loadtest.simulator.table import Table

ROUNDS = 6
CLIENTS = [1, 4, 8]
TOKENS = 128
SEEDS = 8
_QUESTIONS_A_ROUND = 16
_HELD_OUT = 12  # of every skill in either language
_START_S = 600

Loads = dict[int, list[list[Seen]]]
"""What was seen, by the number of clients: of each round, of whoever answered in it."""


def run(rounds: int, file: Path, folder: Path) -> tuple[Table, Loads, Loads]:
    """
    Args:
        file: for the table.

    Returns:
        The table, and what was seen of the engine and of the simulators.

    Raises:
        EngineError
    """
    prompts = [each.prompt for each in Questions().held_out(_HELD_OUT)]
    Random(0).shuffle(prompts)  # they come skill by skill
    wanted = rounds * _QUESTIONS_A_ROUND
    if wanted > len(prompts) // 2:
        raise SystemExit(f"There are questions for {len(prompts) // 2 // _QUESTIONS_A_ROUND} rounds at most.")
    asked = [prompts[begin : begin + _QUESTIONS_A_ROUND] for begin in range(0, wanted, _QUESTIONS_A_ROUND)]
    machine = Machine("cpu", CHECKPOINT, folder, _START_S, ["--stream-interval", "32"])
    with started(machine, [VARIANT]) as (engine,):
        table, real = asyncio.run(_real(engine, asked, prompts[wanted:]))
    file.write_bytes(msgspec.json.format(msgspec.json.encode(table), indent=1) + b"\n")
    return table, real, asyncio.run(_simulated(file, asked, folder))


async def _real(engine: Engine, asked: list[list[list[int]]], others: list[list[int]]) -> tuple[Table, Loads]:
    """Around each load the table is made: the machine is the same for both."""
    seen: Loads = defaultdict(list)
    answers: list[Answer] = []
    calibration = Calibration(engine, others, TOKENS)
    await together(engine.url, others[: 2 * SLOTS], TOKENS, SLOTS)  # to warm up
    began = time.monotonic()
    for number, prompts in enumerate(asked):
        for batch in BATCHES:
            await calibration.together(batch)
            if batch in CLIENTS:
                await calibration.alone()
                found = await together(engine.url, prompts, TOKENS, batch)
                seen[batch].append([Seen.of(found)])
                answers += found
            await calibration.together(batch)
        print(f"round {number + 1} of {len(asked)} after {time.monotonic() - began:.0f} s", flush=True)
    return calibration.table(answers), seen


async def _simulated(table: Path, asked: list[list[list[int]]], folder: Path) -> Loads:
    seen: Loads = defaultdict(list)
    async with AsyncExitStack() as stack:
        urls = []
        for seed in range(SEEDS):
            pace = ["--table", str(table), "--slots", str(SLOTS), "--seed", str(seed)]
            member, url = simulator(f"simulator-{seed}", pace, folder)
            await member.start()
            stack.push_async_callback(member.kill)
            await ready(member)
            urls.append(url)
        for prompts in asked:
            for clients in CLIENTS:
                loads = (together(url, prompts, TOKENS, clients) for url in urls)
                seen[clients].append([Seen.of(found) for found in await asyncio.gather(*loads)])
    return seen
