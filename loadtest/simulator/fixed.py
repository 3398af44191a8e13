"""The plain pace: so long for each block, whatever runs beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from loadtest.simulator.clock import EARLY_S, Clock
from loadtest.simulator.engine import Request
from loadtest.simulator.voice import BLOCK


@dataclass(frozen=True)
class FixedPace:
    block_s: float = 0.1  # from one committed block to the next
    prefill_s: float = 0.002  # for each block of the prompt

    def schedule(self, clock: Clock, commit: Callable[[Request], bool]) -> _Blocks:
        return _Blocks(self, clock, commit)


class _Blocks:
    def __init__(self, pace: FixedPace, clock: Clock, commit: Callable[[Request], bool]) -> None:
        self._clock = clock
        self._pace = pace
        self._commit = commit
        self._due: list[tuple[float, int, Request]] = []  # a heap
        self._order = count()
        self._alarm = clock.alarm(self._ring)

    def begin(self, request: Request) -> None:
        prompt = -(-request.prompt_tokens // BLOCK) * self._pace.prefill_s
        self._add(self._clock.now() + prompt + self._pace.block_s, request)
        self._alarm.set(self._due[0][0])

    def leave(self, request: Request) -> None:
        """It is passed over when its block is due."""

    def notice(self, moment: float) -> None:
        """Changes nothing."""

    def _add(self, due: float, request: Request) -> None:
        heappush(self._due, (due, next(self._order), request))

    def _ring(self) -> None:
        now = self._clock.now() + EARLY_S
        while self._due and self._due[0][0] <= now:
            due, _, request = heappop(self._due)
            if not request.over and self._commit(request):
                self._add(due + self._pace.block_s, request)
        self._alarm.set(self._due[0][0] if self._due else None)
