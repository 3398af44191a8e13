"""One GPU against two that share the model: `python -m loadtest.gpu.tensor --out tensor.json`.

- steps: as `loadtest.gpu.steps`, stock and ours on one GPU each and on both, asked in turns;
- ids: of so many prompts to the demo model in bfloat16, how many answers differ between one GPU and two.
  Beside it, how many differ when the engine of one GPU is asked again, by itself and in a batch;
- serving: two workers of one GPU each behind the gateway against one of two, the same requests at once.

What is started together loads side by side: first the engines of the first algorithm and those of the ids,
then both stacks, then the engines of the second algorithm. Whatever was measured is written at once, to
`--out` and, as tables, beside it, so that a run that is cut has shown what it had.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from dllm_stack.bench.problem import Problem
from loadtest.gpu import engine, table, variants
from loadtest.gpu.engine import EngineError, Machine
from loadtest.gpu.tensor import ids, serving, steps
from loadtest.gpu.tensor.report import Report
from worker import tiny_checkpoint

PARTS = ("steps", "ids", "serving")


def main() -> None:
    arguments = parser().parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    report = Report(arguments.out)
    with table.machine(arguments) as machine:
        if machine.device == "cpu" and machine.checkpoint is None:
            machine = replace(machine, checkpoint=tiny_checkpoint.write(machine.folder / "tiny"))
        try:
            measure(machine, arguments, report, time.monotonic() + arguments.seconds)
        except (EngineError, Problem, RuntimeError) as error:
            sys.exit(str(error))


def parser() -> argparse.ArgumentParser:
    made = table.parser("tensor", __doc__)
    made.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    made.add_argument("--seconds", type=float, default=480, help="nothing new is begun after so long")
    made.add_argument("--algorithms", nargs="+", default=list(variants.ALGORITHMS))
    made.add_argument("--batches", nargs="+", type=int, default=[1, 8, 32])
    made.add_argument("--rounds", type=int, default=2, help="of steps and of serving")
    made.add_argument("--prompt", type=int, default=512, help="tokens; whole blocks")
    made.add_argument("--output", type=int, default=128, help="tokens of an answer")
    made.add_argument("--prompts", type=int, default=20, help="whose ids are compared")
    made.add_argument("--requests", type=int, default=256, help="to the gateway, in each round")
    made.add_argument("--concurrency", type=int, default=64, help="of these requests at once")
    return made


def measure(machine: Machine, arguments: argparse.Namespace, report: Report, deadline: float) -> None:
    """In the order of what one would miss most, should the time be over.

    Raises:
        EngineError, Problem, RuntimeError: something did not start, or did not answer.
    """
    load = steps.Load(arguments.batches, arguments.prompt, arguments.output, arguments.rounds)
    algorithms: list[str] = arguments.algorithms if "steps" in arguments.parts else []
    asked = [steps.engines(algorithm, max(load.batches)) for algorithm in algorithms]
    compared = ids.engines(machine.device) if "ids" in arguments.parts else []
    four = asked[0] if asked else []
    if four or compared:
        with engine.started(_in(machine, "first"), [*four, *compared]) as engines:
            if four:
                steps.measure(machine.model, engines[: len(four)], algorithms[0], load, deadline, report)
            if compared:
                ids.compare(engines[len(four) :], arguments.prompts, report)
    if "serving" in arguments.parts and time.monotonic() < deadline:
        asks = serving.Load(
            arguments.requests, arguments.concurrency, arguments.prompt, arguments.output, arguments.rounds
        )
        serving.compare(_in(machine, "served"), asks, deadline, report)
    for algorithm, four in zip(algorithms[1:], asked[1:], strict=True):
        if time.monotonic() < deadline:
            with engine.started(_in(machine, algorithm), four) as engines:
                steps.measure(machine.model, engines, algorithm, load, deadline, report)


def _in(machine: Machine, folder: str) -> Machine:
    path: Path = machine.folder / folder
    return replace(machine, folder=path)


if __name__ == "__main__":
    main()
