"""What the client itself costs: its share of a core, and how late its loop is."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec
import numpy as np

_EVERY_S = 0.02
_BUSY = 0.7  # of a core: beyond, times wait for the client
_LATE_SHARE = 0.05  # of the median time to the first token


class Cost(msgspec.Struct, frozen=True):
    """
    Attributes:
        cpu_s: of the process, all its threads.
        share: of one core, over the run.
        late_ms: by which the event loop was late, 99th percentile: so much may be added to any time measured.
    """

    cpu_s: float
    share: float
    late_ms: float

    def warning(self, median_ttft_ms: float | None) -> str | None:
        """If the client, and not the server, may be what was measured."""
        if self.share > _BUSY:
            return (
                f"The client used {self.share:.0%} of a core: it may be the bottleneck. "
                "Divide the load among several."
            )
        if median_ttft_ms and self.late_ms > _LATE_SHARE * median_ttft_ms:
            return (
                f"The client's event loop was up to {self.late_ms:.1f} ms late (p99), which is in the times "
                "above: its machine is busy."
            )
        return None


class Watch:
    """Measures while it is open. Use as an async context manager."""

    async def __aenter__(self) -> Self:
        self._late: list[float] = []
        self._cpu, self._began = time.process_time(), time.perf_counter()
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        cpu_s, wall_s = time.process_time() - self._cpu, time.perf_counter() - self._began
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        late = float(np.percentile(self._late, 99)) * 1000 if self._late else 0.0
        self.cost = Cost(cpu_s, cpu_s / wall_s if wall_s else 0.0, late)

    async def _tick(self) -> None:
        while True:
            due = time.perf_counter() + _EVERY_S
            await asyncio.sleep(_EVERY_S)
            self._late.append(time.perf_counter() - due)
