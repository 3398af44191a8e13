"""What was measured so far, in a file of JSON and one of tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from loadtest.gpu import table
from loadtest.gpu.steps import Measurement

Part = Literal["steps", "ids", "serving"]

_FIGURES = ("run_ms", "step_ms", "gap_ms", "tokens_per_s", "denoised_per_s")
_STEPS = ["algorithm", "batch", "engine", "GPUs", "run ms", "step ms", "gap ms", "tok/s", "denoising tok/s"]


@dataclass(frozen=True)
class Case:
    """One row of the table of steps.

    Attributes:
        engine: stock or ours, whatever its GPUs.
    """

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


@dataclass(frozen=True)
class Served:
    """One round of requests to a gateway.

    Attributes:
        gpus: of each worker.
        ttft_ms, ttft_99_ms: the median, and the 99th percentile.
    """

    workers: int
    gpus: int
    tokens_per_s: float
    ttft_ms: float
    ttft_99_ms: float
    completed: int
    requests: int


class Report:
    def __init__(self, file: Path) -> None:
        self._file = file
        self.steps: list[Case] = []
        self.ids: list[Differing] = []
        self.serving: list[Served] = []
        self.write()

    def write(self) -> None:
        parts: dict[Part, list[Case] | list[Differing] | list[Served]] = {
            "steps": self.steps,
            "ids": self.ids,
            "serving": self.serving,
        }
        written = {name: [asdict(each) for each in found] for name, found in parts.items()}
        self._file.write_text(json.dumps(written, indent=1) + "\n", "utf-8")
        tables = "".join(table.markdown(*self.table(part)) for part, found in parts.items() if found)
        self._file.with_suffix(".md").write_text(tables, "utf-8")

    def show(self, part: Part) -> None:
        table.show(*self.table(part))

    def table(self, part: Part) -> tuple[list[str], list[list[object]]]:
        """Its heads and its rows."""
        match part:
            case "steps":
                return [*_STEPS, "x tok/s of one GPU"], _rows_of_steps(self.steps)
            case "ids":
                heads = ["not as one GPU answers one by one", "prompts", "differ", "first token, median"]
                return heads, [
                    [each.asked, each.prompts, each.differ, median(each.first) if each.first else ""]
                    for each in self.ids
                ]
            case "serving":
                return _SERVING, _rows_of_serving(self.serving)


def _rows_of_steps(cases: Sequence[Case]) -> list[list[object]]:
    measured = [case for case in cases if case.rounds]
    one = {(case.algorithm, case.batch, case.engine): case for case in measured if case.gpus == 1}
    rows: list[list[object]] = []
    for case in measured:
        single = one.get((case.algorithm, case.batch, case.engine))
        has_other = single is not None and single is not case
        ratio = case.median("tokens_per_s") / single.median("tokens_per_s") if single and has_other else ""
        figures = [case.median(figure) for figure in _FIGURES]
        rows.append([case.algorithm, case.batch, case.engine, case.gpus, *figures, ratio])
    return rows


_SERVING = [
    *("workers", "GPUs of each", "rounds", "tok/s", "TTFT ms, median", "TTFT ms, 99 %", "answered"),
    "x tok/s of the first",
]


def _rows_of_serving(served: Sequence[Served]) -> list[list[object]]:
    """Medians of the rounds."""
    sides: dict[tuple[int, int], list[Served]] = {}
    for each in served:
        sides.setdefault((each.workers, each.gpus), []).append(each)
    rows: list[list[object]] = []
    rates: list[float] = []
    for (workers, gpus), rounds in sides.items():
        rates.append(float(median(each.tokens_per_s for each in rounds)))
        answered = f"{sum(each.completed for each in rounds)} of {sum(each.requests for each in rounds)}"
        times = [
            float(median(each.ttft_ms for each in rounds)),
            float(median(each.ttft_99_ms for each in rounds)),
        ]
        ratio = rates[-1] / rates[0] if len(rates) > 1 else ""
        rows.append([workers, gpus, len(rounds), rates[-1], *times, answered, ratio])
    return rows
