"""Writes a line for each round of an engine: when it ran, and how much of it the model's forwards took."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, TextIO

import torch

from loadtest.gpu.hooks.kernels import Profile

_FILE = "rounds.jsonl"


@dataclass(frozen=True)
class Round:
    """One call of the algorithm: a forward, or as many as it makes before it asks the scheduler again.

    Attributes:
        begin_s, end_s: on the clock that all processes of a machine share (time.perf_counter).
        rows: requests that were denoised.
        prefix: tokens that come before the block of the row that has the fewest.
        forwards_s: of each forward, from its call until its logits are there.
        computed: of each forward its rows of one block, prompts' too, and the tokens before all these blocks.
    """

    begin_s: float
    end_s: float
    rows: int
    prefix: int
    forwards_s: list[float]
    computed: list[tuple[int, int]] = field(default_factory=list)


def read(folder: Path, begin_s: float, end_s: float) -> list[Round]:
    """The rounds of an engine that lie between two moments."""
    lines = (folder / _FILE).read_text().splitlines()
    rounds = (_read(line) for line in lines)
    return [each for each in rounds if begin_s <= each.begin_s and each.end_s <= end_s]


def _read(line: str) -> Round:
    values = json.loads(line)
    values[-1] = [(rows, context) for rows, context in values[-1]]
    return Round(*values)


class Recorder:
    """
    Args:
        folder: of this engine.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: TextIO | None = None
        self._stopwatches: list[_Stopwatch] | None = None  # of the round under way
        self._computed: list[tuple[int, int]] = []  # in it
        self._profile = Profile(folder)

    def around_run(
        self,
        original: Callable[..., Any],
        algorithm: Any,
        runner: Any,
        batch: Any,
        *others: Any,
        **named: Any,
    ) -> Any:
        """AROUND hook on the algorithm's `run`; of several GPUs the first one tells."""
        if torch.distributed.get_rank() > 0:
            return original(algorithm, runner, batch, *others, **named)
        prefix = min(batch.extend_prefix_lens_cpu or [0])
        self._profile.before(batch.rids, prefix)
        self._stopwatches, self._computed = [], []
        begin = time.perf_counter()
        result = original(algorithm, runner, batch, *others, **named)
        end = time.perf_counter()
        stopwatches, self._stopwatches = self._stopwatches, None
        self._profile.after(len(stopwatches))
        forwards = [stopwatch.seconds() for stopwatch in stopwatches]
        self._write(Round(begin, end, batch.batch_size, prefix, forwards, self._computed))
        return result

    def around_forward(
        self, original: Callable[..., Any], runner: Any, batch: Any, *others: Any, **named: Any
    ) -> Any:
        """AROUND hook on the model's forward."""
        if self._stopwatches is None:  # SGLang is capturing graphs
            return original(runner, batch, *others, **named)
        stopwatch = _GpuStopwatch() if runner.device == "cuda" else _Stopwatch()
        result = original(runner, batch, *others, **named)
        stopwatch.stop()
        self._stopwatches.append(stopwatch)
        self._computed.append((batch.batch_size, sum(batch.extend_prefix_lens_cpu or [])))
        return result

    def _write(self, done: Round) -> None:
        if self._file is None:
            self._file = (self._folder / _FILE).open("w", buffering=1)
        self._file.write(json.dumps(astuple(done)) + "\n")


class _Stopwatch:
    def __init__(self) -> None:
        self._begin = self._end = time.perf_counter()

    def stop(self) -> None:
        self._end = time.perf_counter()

    def seconds(self) -> float:
        return self._end - self._begin


class _GpuStopwatch(_Stopwatch):
    """On the GPU's own clock, so that the host need not wait for it."""

    def __init__(self) -> None:
        self._first, self._last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._first.record()

    def stop(self) -> None:
        self._last.record()

    def seconds(self) -> float:
        self._last.synchronize()
        return float(self._first.elapsed_time(self._last)) / 1000
