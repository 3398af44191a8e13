"""The simulator beside the engine that it simulates: `python -m loadtest.simulator.show`.

First what it does with the table of the H200, on a computed clock, beside what was measured there. Then
SGLang runs here with the demo model and the extension: a table is made from what it is seen to do, the
simulator keeps the pace of that table, and the same closed loops go to both. Prints time to the first block,
time between blocks, tokens a second and tokens a forward of both, and what one process of the simulator can
do by itself. Exit status: whether all are within 10 %.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import fields
from pathlib import Path
from statistics import mean

import msgspec

from loadtest.fleet import ready, simulator
from loadtest.gpu.engine import Engine, Machine, started
from loadtest.gpu.questions import CHECKPOINT, Questions
from loadtest.simulator import alone, published
from loadtest.simulator.calibration import SLOTS, VARIANT, Calibration
from loadtest.simulator.load import Seen, together
from loadtest.simulator.table import Table
from loadtest.simulator.voice import Voice

PARTS = ("h200", "engine", "alone")
CLIENTS = [1, 4, 8]
TOKENS = 128
ALLOWED = 0.10
_REQUESTS_A_CLIENT = 4
_START_S = 600
_FIGURES = {
    "ttft_s": ("first block, ms", 1000),
    "interval_s": ("between blocks, ms", 1000),
    "tokens_per_s": ("tokens/s", 1),
    "tokens_per_forward": ("tokens a forward", 1),
}

_Loads = dict[int, list[Seen]]
"""What was seen, by the number of clients."""


async def load(url: str, asked: list[list[int]], seen: _Loads) -> None:
    for clients in CLIENTS:
        wanted = clients * _REQUESTS_A_CLIENT
        prompts = (asked * (wanted // len(asked) + 1))[:wanted]
        seen[clients].append(Seen.of(await together(url, prompts, TOKENS, clients)))


async def real(
    engine: Engine, asked: list[list[int]], texts: list[list[int]], rounds: int
) -> tuple[Table, _Loads]:
    """Measured in turns with the loads: the machine is the same for both."""
    seen: _Loads = defaultdict(list)
    calibration = Calibration(engine, texts)
    await together(engine.url, asked[: 2 * SLOTS], TOKENS, SLOTS)  # to warm up
    began = time.monotonic()
    for number in range(rounds):
        await calibration.go_on()
        await load(engine.url, asked, seen)
        print(f"round {number + 1} of {rounds} after {time.monotonic() - began:.0f} s", flush=True)
    return calibration.table(), seen


async def simulated(table: Path, asked: list[list[int]], rounds: int, folder: Path) -> _Loads:
    seen: _Loads = defaultdict(list)
    member, url = simulator("simulator", ["--table", str(table), "--slots", str(SLOTS)], folder)
    await member.start()
    try:
        await ready(member)
        for _ in range(rounds):
            await load(url, asked, seen)
    finally:
        await member.kill()
    return seen


def compare(real: _Loads, simulated: _Loads) -> bool:
    """Whether all figures are within what is allowed."""
    good = True
    print(f"{'':<20} {'clients':>7} {'engine':>9} {'simulator':>9} {'ratio':>7}")
    for field in fields(Seen):
        name, scale = _FIGURES[field.name]
        for clients in CLIENTS:
            of_real, of_simulated = (
                scale * mean(getattr(seen, field.name) for seen in side[clients])
                for side in (real, simulated)
            )
            ratio = of_simulated / of_real
            near = abs(ratio - 1) <= ALLOWED
            good &= near
            print(
                f"{name:<20} {clients:>7} {of_real:>9.2f} {of_simulated:>9.2f} {ratio:>7.3f}"
                f"{'' if near else '  MORE THAN 10 % APART'}"
            )
    return good


def show(table: Table) -> None:
    for name in ("step_ms", "prompt_ms", "round_ms"):
        curve = getattr(table, name)
        print(f"{name:<12}" + "  ".join(f"{at}: {value:.2f}" for at, value in curve.items()))
    print(f"request_ms  {table.request_ms:.2f}")
    blocks = sum(table.steps.values())
    print(f"denoise steps of a block, {blocks} blocks, {table.tokens_a_forward:.2f} tokens a forward:")
    print(
        "            " + "  ".join(f"{steps}: {count / blocks:.0%}" for steps, count in table.steps.items())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--table", type=Path, help="file to keep the table in")
    parser.add_argument("--only", choices=list(PARTS), help="one part of it")
    arguments = parser.parse_args()
    # So that whoever ends the command ends its engine.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parts = [arguments.only] if arguments.only else PARTS
    good = True
    with tempfile.TemporaryDirectory(prefix="simulator-") as temporary:
        if "h200" in parts:
            good &= agrees_with_h200()
        if "engine" in parts:
            good &= beside(arguments.rounds, arguments.table, Path(temporary))
        if "alone" in parts:
            asyncio.run(alone.run(Path(temporary)))
    print("\nthe simulator keeps the engine's pace" if good else "\nthe simulator is MORE THAN 10 % off")
    raise SystemExit(0 if good else 1)


def agrees_with_h200() -> bool:
    good = True
    print(f"{'one H200, docs/benchmarks.md':<44} {'measured':>9} {'simulator':>9} {'ratio':>7}")
    for figure in published.figures(Voice(CHECKPOINT)):
        near = abs(figure.ratio - 1) <= ALLOWED
        good &= near or not figure.must_agree
        note = "" if near else "  MORE THAN 10 % APART" if figure.must_agree else "  the table has no jitter"
        print(
            f"{figure.name:<44} {figure.measured:>9.1f} {figure.simulated:>9.1f} {figure.ratio:>7.3f}{note}"
        )
    return good


def beside(rounds: int, keep: Path | None, folder: Path) -> bool:
    questions = [each.prompt for each in Questions().held_out(12)]
    asked, texts = questions[::2], questions[1::2]
    machine = Machine("cpu", CHECKPOINT, folder, _START_S, ["--stream-interval", "32"])
    with started(machine, [VARIANT]) as (engine,):
        table, seen = asyncio.run(real(engine, asked, texts, rounds))
    file = keep or folder / "table.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(table), indent=1) + b"\n")
    show(table)
    again = asyncio.run(simulated(file, asked, rounds, folder))
    return compare(seen, again)


if __name__ == "__main__":
    main()
