"""The pace of the real engine: its requests make their denoise steps together, in rounds of its scheduler.

The same decisions as in `worker.dllm`: which rows a round has (`prefill.rounds`, `prefill.budget`), and when
it ends (`decoder`). Times are those of a table; the event loop is woken once a round, however many requests
there are.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from loadtest.simulator.clock import EARLY_S, Clock
from loadtest.simulator.engine import Request
from loadtest.simulator.table import Acceptance, Curve, Table
from loadtest.simulator.voice import BLOCK
from worker.dllm.prefill.limits import Limits

# As in worker/dllm/decoder.py.
LEAVE_TOGETHER, PATIENCE, FEW_ROWS = 8, 3, 4

_Due = tuple[int, int, Request]
"""The forward with which a block is finished, a number to order equal ones, and whose it is."""


@dataclass(frozen=True)
class MeasuredPace:
    table: Table

    def schedule(self, clock: Clock, commit: Callable[[Request], bool]) -> _Rounds:
        return _Rounds(self.table, clock, commit)


@dataclass(frozen=True)
class _Block:
    """One that is being denoised. Attributes: context: tokens before it."""

    forwards: int
    context: int


@dataclass(eq=False)
class _Round:
    """
    Attributes:
        rows: requests that are denoised.
        first_s, later_s: of its forwards; the first has the prompts' blocks.
        steps: forwards; of prompts alone one, which is no step of anybody.
        due: blocks that are finished if it goes on so long.
        prompts: blocks of each prompt that it computes.
    """

    begun_at: float
    rows: int
    first_s: float
    later_s: float
    steps: int
    due: list[_Due]
    prompts: list[tuple[Request, int]]

    def step_at(self, moment: float) -> int:
        """The step under way, from 1."""
        later = moment - self.begun_at - self.first_s
        return 1 if later <= 0 or not self.later_s else 1 + int(-(-later // self.later_s))

    @property
    def forwards_s(self) -> float:
        return self.first_s + (self.steps - 1) * self.later_s


class _Rounds:
    def __init__(self, table: Table, clock: Clock, commit: Callable[[Request], bool]) -> None:
        self._clock = clock
        self._commit = commit
        self._step, self._prompt = Curve(table.step_ms), Curve(table.prompt_ms)
        self._between, self._commit_s = Curve(table.round_ms), table.commit_ms / 1000
        self._request_s = table.request_ms / 1000
        self._context_s = table.context_ms / 1e6  # a token
        self._limits = Limits(table.prompt_rows, table.mixed_prompt_rows)
        self._most = table.steps_per_round
        self._acceptance = Acceptance(table.steps)
        self._forwards = 0  # since the start, of those that denoise
        self._due: list[_Due] = []  # a heap
        self._order = count()
        self._denoising: dict[Request, _Block] = {}
        self._context = 0  # of these, together
        self._prompts: dict[Request, int] = {}  # and its blocks still to be computed, the oldest first
        self._newcomers: deque[Request] = deque()
        self._notices: list[float] = []  # when something reaches the scheduler
        self._round: _Round | None = None
        self._ringing = False
        self._alarm = clock.alarm(self._ring)

    def begin(self, request: Request) -> None:
        self._newcomers.append(request)
        if self._ringing:
            return
        if self._round is None:
            self._round = self._next(self._clock.now())
        self._set_alarm()

    def leave(self, request: Request) -> None:
        self._rest(request)
        self._prompts.pop(request, None)
        if request in self._newcomers:
            self._newcomers.remove(request)
        if self._ringing:
            return
        if not (self._denoising or self._prompts or self._newcomers):
            self._round = None
            self._due.clear()
        self._set_alarm()

    def notice(self, moment: float) -> None:
        """A round ends with the step at which something arrives."""
        insort(self._notices, moment + self._request_s)
        if self._round is not None:
            self._cut(self._round)
            if not self._ringing:
                self._set_alarm()

    def _ring(self) -> None:
        now = self._clock.now() + EARLY_S
        self._ringing = True
        try:
            while self._round is not None and (end := self._end(self._round)) <= now:
                self._finish(self._round)
                self._round = self._next(end)
        finally:
            self._ringing = False
        self._set_alarm()

    def _set_alarm(self) -> None:
        self._alarm.set(None if self._round is None else self._end(self._round))

    def _end(self, round_: _Round) -> float:
        reached = self._forwards + round_.steps
        finished = sum(due <= reached for due, _, _ in round_.due)
        between = self._between(round_.rows + len(round_.prompts)) + finished * self._commit_s
        return round_.begun_at + round_.forwards_s + between

    def _next(self, moment: float) -> _Round | None:
        """The round that begins then, or when there is a request for one."""
        if not self._denoising and not self._prompts:
            if not self._newcomers:
                return None
            moment = max(moment, self._ready_at(self._newcomers[0]))
        self._notices = [each for each in self._notices if each > moment]
        while self._newcomers and self._ready_at(self._newcomers[0]) <= moment:
            self._admit(self._newcomers.popleft())
        rows = len(self._denoising)
        if self._prompts and not self._limits.mixed:
            rows = 0
        prompts = self._shares(self._limits.beside(rows))
        blocks = sum(share for _, share in prompts)
        if not rows:
            return _Round(moment, 0, self._prompt(blocks), 0.0, 1, [], prompts)
        most = self._most if not blocks else 2 if rows < FEW_ROWS else 1
        due = self._nearest(max(1, rows // LEAVE_TOGETHER))
        first, enough = due[0][0] - self._forwards, due[-1][0] - self._forwards
        steps = min(most, enough, first + 1 + PATIENCE)
        while self._due and self._due[0][0] <= self._forwards + steps:
            due.append(heappop(self._due))
        later_s = self._step(rows) + self._context * self._context_s
        first_s = later_s
        if prompts:
            context = self._context + sum(self._before(*each) for each in prompts)
            first_s = self._step(rows + blocks) + context * self._context_s
        round_ = _Round(moment, rows, first_s, later_s, steps, due, prompts)
        self._cut(round_)
        return round_

    def _cut(self, round_: _Round) -> None:
        for moment in self._notices:
            if moment > round_.begun_at:
                round_.steps = min(round_.steps, round_.step_at(moment))
                return

    def _finish(self, round_: _Round) -> None:
        if round_.rows:
            self._forwards += round_.steps
        for request, share in round_.prompts:
            if request in self._prompts:
                self._prompts[request] -= share
                if not self._prompts[request]:
                    del self._prompts[request]
                    self._denoise(request)
        for due in round_.due:
            request = due[2]
            if request not in self._denoising:
                continue
            if due[0] > self._forwards:
                heappush(self._due, due)
                continue
            request.forwards[len(request.answer.ids)] = self._denoising[request].forwards
            goes_on = self._commit(request)
            self._rest(request)
            if goes_on:
                self._denoise(request)

    def _admit(self, request: Request) -> None:
        if blocks := request.prompt_tokens // BLOCK:
            self._prompts[request] = blocks
        else:
            self._denoise(request)

    def _denoise(self, request: Request) -> None:
        """Its next block."""
        # A last forward stores what all steps together have come to.
        forwards = self._acceptance(request.answer.chance(), request.answer.masked) + 1
        context = (request.prompt_tokens + len(request.answer.ids)) // BLOCK * BLOCK
        self._denoising[request] = _Block(forwards, context)
        self._context += context
        heappush(self._due, (self._forwards + forwards, next(self._order), request))

    def _rest(self, request: Request) -> None:
        """Its block is no longer denoised, if one was."""
        if (block := self._denoising.pop(request, None)) is not None:
            self._context -= block.context

    def _before(self, request: Request, share: int) -> int:
        """Tokens before each of the next so many blocks of its prompt, together."""
        done = request.prompt_tokens // BLOCK - self._prompts[request]
        return BLOCK * (done * share + share * (share - 1) // 2)

    def _shares(self, left: int) -> list[tuple[Request, int]]:
        """A forward's prompt blocks: one is kept for each prompt behind the present one, but half at most."""
        shares, behind = [], len(self._prompts)
        for request, blocks in self._prompts.items():
            behind -= 1
            share = min(blocks, left - min(behind, left // 2))
            if share > 0:
                shares.append((request, share))
                left -= share
        return shares

    def _nearest(self, wanted: int) -> list[_Due]:
        """So many of the blocks that are finished first."""
        found: list[_Due] = []
        while len(found) < wanted:
            due = heappop(self._due)
            if due[2] in self._denoising:
                found.append(due)
        return found

    def _ready_at(self, request: Request) -> float:
        return request.arrived_at + self._request_s
