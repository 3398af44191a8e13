"""One timer of the event loop for all that a schedule waits for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

EARLY_S = 0.0005
"""uvloop's timers are of whole milliseconds, to which it rounds."""


class Alarm:
    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def set(self, due: float | None) -> None:
        """In place of what it was set to. Args: due: monotonic seconds; None: never."""
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
