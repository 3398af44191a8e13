"""The time that the simulator keeps: the event loop's, or one that passes as fast as it can be computed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

EARLY_S = 0.0005
"""uvloop's timers are of whole milliseconds, to which it rounds."""


class Alarm(Protocol):
    def set(self, due: float | None) -> None:
        """In place of what it was set to. Args: due: seconds of its clock; None: never."""


class Clock(Protocol):
    def now(self) -> float:
        """Seconds."""

    def alarm(self, ring: Callable[[], None]) -> Alarm: ...


class LoopClock:
    """Monotonic time, in an event loop."""

    def now(self) -> float:
        return time.monotonic()

    def alarm(self, ring: Callable[[], None]) -> Alarm:
        return _LoopAlarm(ring)


class _LoopAlarm:
    """One timer of the event loop for all that a schedule waits for."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def set(self, due: float | None) -> None:
        if self._timer is not None:
            if due == self._due:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._due = due
            delay = max(0.0, due - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._ring()


class ComputedClock:
    """No time passes but to the next alarm; for one schedule.

    Attributes:
        time: seconds.
        late_s: of each alarm.
        rings: so far.
    """

    def __init__(self) -> None:
        self.time = 0.0
        self.late_s = 0.0
        self.rings = 0
        self._due: float | None = None
        self._ring: Callable[[], None]

    def now(self) -> float:
        return self.time

    def alarm(self, ring: Callable[[], None]) -> Alarm:
        self._ring = ring
        return self

    def set(self, due: float | None) -> None:
        self._due = due

    def run(self, until: float | None = None) -> None:
        """To this moment, or until nothing is left to do."""
        while self._due is not None and (until is None or self._due <= until):
            self.time, self._due = max(self.time, self._due) + self.late_s, None
            self.rings += 1
            self._ring()
        if until is not None:
            self.time = until
