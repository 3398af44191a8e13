"""The simulator's requests and slots. When a block is committed is its pace's affair: `fixed` or `rounds`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from loadtest.simulator.clock import Clock, LoopClock
from loadtest.simulator.voice import Answer, Voice

Finish = Literal["length", "abort"]


@dataclass(eq=False, slots=True)
class Request:
    """
    Attributes:
        tell: called with every block, and with how the answer ended at its end.
        arrived_at: by the engine's clock.
        forwards: of each block so far, by the answer's length before it; none at a pace without forwards.
    """

    rid: str
    prompt_tokens: int
    max_tokens: int
    answer: Answer
    tell: Callable[[Request, Finish | None], None]
    arrived_at: float
    forwards: dict[int, int] = field(default_factory=dict)
    has_slot: bool = False
    over: bool = False


class Schedule(Protocol):
    def begin(self, request: Request) -> None:
        """It has a slot now."""

    def leave(self, request: Request) -> None:
        """It ends before its answer does."""

    def notice(self, moment: float) -> None:
        """The engine is sent a request or an abort then."""


class Pace(Protocol):
    def schedule(self, clock: Clock, commit: Callable[[Request], bool]) -> Schedule:
        """
        Args:
            commit: to call when a request's block is finished. Returns whether there will be another.
        """


@dataclass
class Totals:
    """Since the start."""

    requests: int = 0
    completed: int = 0
    tokens: int = 0
    blocks: int = 0
    busy_s: float = 0.0  # summed over the slots


class SimulatedEngine:
    """
    Args:
        slots: requests that run at once; further ones wait, first come, first served.
        clock: None: the event loop's.
    """

    def __init__(self, voice: Voice, slots: int, pace: Pace, clock: Clock | None = None) -> None:
        self._clock = clock or LoopClock()
        self.slots = slots
        self._voice = voice
        self._schedule = pace.schedule(self._clock, self._commit)
        self._totals = Totals()
        self._counted_at = self._clock.now()
        self._running = 0
        self._waiting: deque[Request] = deque()
        self._requests: dict[str, Request] = {}

    @property
    def running(self) -> int:
        return self._running

    @property
    def waiting(self) -> int:
        return len(self._requests) - self._running

    def totals(self) -> Totals:
        now = self._clock.now()
        self._totals.busy_s += self._running * (now - self._counted_at)
        self._counted_at = now
        return self._totals

    def submit(
        self,
        rid: str,
        prompt: Sequence[int],
        max_tokens: int,
        tell: Callable[[Request, Finish | None], None],
    ) -> Request:
        """
        Raises:
            KeyError: there is a request of this id already.
        """
        if rid in self._requests:
            raise KeyError(rid)
        answer = Answer(self._voice, prompt)
        request = Request(rid, len(prompt), max_tokens, answer, tell, arrived_at=self._clock.now())
        self._requests[rid] = request
        self._totals.requests += 1
        self._schedule.notice(request.arrived_at)
        if self._running < self.slots:
            self._change(+1)
            self._begin(request)
        else:
            self._waiting.append(request)
        return request

    def abort(self, prefix: str) -> None:
        """Ends every request whose id begins so, as SGLang does."""
        for request in [each for rid, each in self._requests.items() if rid.startswith(prefix)]:
            self.drop(request)
            request.tell(request, "abort")

    def drop(self, request: Request) -> None:
        """Ends it, and tells it nothing more."""
        if request.over:
            return
        if request.has_slot:
            self._schedule.leave(request)
            self._schedule.notice(self._clock.now())
        self._end(request)

    def _commit(self, request: Request) -> bool:
        before = len(request.answer.ids)
        request.answer.extend(request.max_tokens - before)
        self._totals.tokens += len(request.answer.ids) - before
        self._totals.blocks += 1
        if len(request.answer.ids) < request.max_tokens:
            request.tell(request, None)
            return not request.over
        self._totals.completed += 1
        self._end(request)
        request.tell(request, "length")
        return False

    def _begin(self, request: Request) -> None:
        request.has_slot = True
        self._schedule.begin(request)

    def _end(self, request: Request) -> None:
        """Its slot goes to whoever has waited longest."""
        request.over = True
        del self._requests[request.rid]
        if not request.has_slot:
            return  # those that wait are looked through when a slot is free
        while self._waiting:
            next_one = self._waiting.popleft()
            if not next_one.over:
                self._begin(next_one)
                return
        self._change(-1)

    def _change(self, by: int) -> None:
        self.totals()
        self._running += by
