"""How long an engine's rounds take, as they were measured: a JSON file."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path

import msgspec

from loadtest.simulator.voice import BLOCK

TABLES = Path(__file__).parent / "tables"

_Curve = dict[int, float]
"""Milliseconds by a number of rows, or of anything else."""


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    Attributes:
        source: what was measured, where and how.
        step_ms: a denoise step, forward included, by the rows of the forward.
        context_ms: what a step is longer for each 1,000 tokens that come before its rows' blocks, of all rows
            together.
        prompt_ms: a forward of prompt blocks alone, by their number.
        round_ms: the scheduler's work between two rounds, by the requests that take part.
        commit_ms: what the same work is longer for each block that was finished.
        request_ms: of a request, what passes outside of all rounds: from its arrival to the scheduler, and
            from a finished block to whoever reads it.
        prompt_rows, mixed_prompt_rows, steps_per_round: as the engine was started; see docs/profiles.md.
        steps: denoise steps of a block, all of whose tokens were masked, and how many blocks took as many.
    """

    source: str
    step_ms: _Curve
    context_ms: float
    prompt_ms: _Curve
    round_ms: _Curve
    commit_ms: float
    request_ms: float
    prompt_rows: int
    mixed_prompt_rows: int
    steps_per_round: int
    steps: dict[int, int]

    @classmethod
    def read(cls, name: str) -> Table:
        """
        Args:
            name: of a table that comes with the simulator, or a file.

        Raises:
            ValueError: the file is not one, or has impossible values.
            OSError
        """
        own = TABLES / f"{name}.json"
        table = msgspec.json.decode((own if own.exists() else Path(name)).read_bytes(), type=cls)
        for field in ("step_ms", "prompt_ms", "round_ms", "steps"):
            curve = getattr(table, field)
            if not curve or min(curve) < 1 or min(curve.values()) < 0:
                raise ValueError(f"{name}: {field} needs entries, for 1 and more, that are not negative")
        if min(table.prompt_rows, table.steps_per_round) < 1 or not sum(table.steps.values()):
            raise ValueError(f"{name}: prompt_rows, steps_per_round and steps must be at least 1")
        return table

    @property
    def tokens_a_forward(self) -> float:
        """Of blocks of which every token was masked. A block's last forward stores what is committed."""
        blocks = sum(self.steps.values())
        return BLOCK * blocks / sum((steps + 1) * count for steps, count in self.steps.items())


class Curve:
    """Seconds by a number: straight lines between what was measured, and on beyond it."""

    def __init__(self, milliseconds: Mapping[int, float]) -> None:
        self._points = sorted((at, value / 1000) for at, value in milliseconds.items())
        self._known: dict[int, float] = {}

    def __call__(self, at: int) -> float:
        if at not in self._known:
            self._known[at] = self._at(at)
        return self._known[at]

    def _at(self, at: int) -> float:
        if len(self._points) == 1 or at <= self._points[0][0]:
            return self._points[0][1]
        place = min(max(bisect_left(self._points, (at,)), 1), len(self._points) - 1)
        (left, low), (right, high) = self._points[place - 1 : place + 1]
        return max(low + (high - low) * (at - left) / (right - left), 0.0)


class Acceptance:
    """How many denoise steps a block takes."""

    def __init__(self, steps: Mapping[int, int]) -> None:
        self._steps = sorted(steps)
        self._until = list(accumulate(steps[each] for each in self._steps))

    def __call__(self, chance: float, masked: int) -> int:
        """
        Args:
            chance: from 0 to 1.
            masked: tokens to commit. A step commits as many of a block that is not all masked as of others.
        """
        place = bisect_right(self._until, chance * self._until[-1])
        steps = self._steps[min(place, len(self._steps) - 1)]
        return max(1, -(-steps * masked // BLOCK))
