"""What the GPU does in a denoise step: a profile of the rounds of requests that ask for one by their id."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

_FILE = "kernels.jsonl"
_ID = "profile"
_SETTLED_FORWARDS = 8
_FORWARDS = 40
_TOP = 15


def request_id(prompt_tokens: int, number: int) -> str:
    """Of a request whose rounds are profiled once its prompt of so many tokens is behind it."""
    return f"{_ID}-{prompt_tokens}-{number}-{time.monotonic_ns()}"


@dataclass(frozen=True)
class Kernel:
    name: str
    calls: float  # a forward
    ms: float  # a forward


@dataclass(frozen=True)
class Kernels:
    """
    Attributes:
        busy_ms: a forward; what runs at the same time counts once.
        top: those that take the most time.
    """

    forwards: int
    busy_ms: float
    top: list[Kernel]


def take(folder: Path) -> Kernels | None:
    """The profile that an engine has written, once."""
    file = folder / _FILE
    if not file.exists():
        return None
    values = json.loads(file.read_text())
    file.unlink()
    return Kernels(**values | {"top": [Kernel(**each) for each in values["top"]]})


class Profile:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._profiler: Any = None
        self._forwards = 0
        self._finished = ""  # the request that was profiled last

    def before(self, ids: Sequence[str] | None, prefix: int) -> None:
        """Before a round.

        Args:
            ids: the requests'.
            prefix: see `Round`.
        """
        first = ids[0] if ids else ""
        wanted = first.startswith(_ID) and prefix >= int(first.split("-")[1])
        if self._profiler is not None:
            return
        if not wanted or first == self._finished or not torch.cuda.is_available():
            self._forwards = 0
        elif self._forwards >= _SETTLED_FORWARDS:
            self._forwards = 0
            self._finished = first
            activity = torch.profiler.ProfilerActivity.CUDA
            self._profiler = torch.profiler.profile(activities=[activity])
            self._profiler.start()

    def after(self, forwards: int) -> None:
        """After a round of so many forwards."""
        self._forwards += forwards
        if self._profiler is not None and self._forwards >= _FORWARDS:
            torch.cuda.synchronize()
            self._profiler.stop()
            self._write(_kernels(self._profiler.events(), self._forwards))
            self._profiler = None

    def _write(self, kernels: Kernels) -> None:
        (self._folder / _FILE).write_text(json.dumps(asdict(kernels)))


def _kernels(events: Iterable[Any], forwards: int) -> Kernels:
    on_gpu = [
        event
        for event in events
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation
    ]
    by_name: dict[str, list[float]] = defaultdict(list)
    for event in on_gpu:
        by_name[event.name].append(event.time_range.elapsed_us() / 1000)
    top = sorted(by_name.items(), key=lambda item: -sum(item[1]))[:_TOP]
    spans = [(event.time_range.start, event.time_range.end) for event in on_gpu]
    return Kernels(
        forwards,
        union(spans) / 1000 / forwards,
        [Kernel(name, len(times) / forwards, sum(times) / forwards) for name, times in top],
    )


def union(spans: Iterable[tuple[float, float]]) -> float:
    """How much of a line the spans cover."""
    covered, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return covered
