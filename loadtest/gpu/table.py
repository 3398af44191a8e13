"""Tables in Markdown, and the arguments that all of the commands take."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from loadtest.gpu.engine import Machine


def show(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    print(markdown(heads, rows), flush=True)


def markdown(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        cells = [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=f"python -m loadtest.gpu.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--out", type=Path, required=True, help="JSON file to write")
    made.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    made.add_argument("--checkpoint", type=Path, help="in place of LLaDA2-mini with random weights")
    made.add_argument("--start-s", type=float, default=240, help="time for the engines to start")
    made.add_argument("--engine-files", type=Path, help="folder to keep the engines' logs in")
    made.add_argument(
        "--engine-args", nargs=argparse.REMAINDER, default=[], help="more, as the last argument"
    )
    return made


@contextmanager
def machine(arguments: argparse.Namespace) -> Iterator[Machine]:
    # So that whoever ends the command ends its engines.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as temporary:
        yield Machine(
            device=arguments.device,
            checkpoint=arguments.checkpoint and arguments.checkpoint.resolve(),
            folder=(arguments.engine_files or Path(temporary)).resolve(),
            start_s=arguments.start_s,
            arguments=arguments.engine_args,
        )
