"""The simulator beside the engine that it simulates: `python -m loadtest.simulator.show`.

First what it does with the table of the H200, on a computed clock, beside what was measured there. Then
SGLang runs here with the demo model and the extension: a table is made from what it is seen to do, simulators
keep the pace of that table, and the same closed loops go to all: see `beside`. Prints time to the first
block, time between blocks, tokens a second and tokens a forward of both, and what one process of the
simulator can do by itself. Exit status: whether all are within 10 %.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from pathlib import Path

from loadtest.gpu.questions import CHECKPOINT
from loadtest.simulator import alone, beside, published
from loadtest.simulator.comparison import ALLOWED, compare
from loadtest.simulator.table import Table
from loadtest.simulator.voice import Voice

PARTS = ("h200", "engine", "alone")


def show(table: Table) -> None:
    for name in ("step_ms", "prompt_ms", "round_ms"):
        curve = getattr(table, name)
        print(f"{name:<12}" + "  ".join(f"{at}: {value:.2f}" for at, value in curve.items()))
    print(f"context_ms  {table.context_ms:.2f}")
    print(f"request_ms  {table.request_ms:.2f}")
    blocks = sum(table.steps.values())
    print(f"denoise steps of a block, {blocks} blocks, {table.tokens_a_forward:.2f} tokens a forward:")
    print(
        "            " + "  ".join(f"{steps}: {count / blocks:.0%}" for steps, count in table.steps.items())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=beside.ROUNDS)
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
            good &= agrees_with_engine(arguments.rounds, arguments.table, Path(temporary))
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


def agrees_with_engine(rounds: int, keep: Path | None, folder: Path) -> bool:
    table, real, simulated = beside.run(rounds, keep or folder / "table.json", folder)
    show(table)
    compared = compare(real, simulated)
    print("\n".join(compared.lines()))
    return compared.good


if __name__ == "__main__":
    main()
