"""The simulator's slots and their pace."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from loadtest.simulator.voice import BLOCK, Answer, Voice


@dataclass(frozen=True)
class Pace:
    slots: int = 16  # requests that run at once; further ones wait, first come, first served
    block_s: float = 0.1  # from one committed block to the next
    prefill_s: float = 0.002  # for each block of the prompt


@dataclass(frozen=True)
class Progress:
    """`finish`: "length" or "abort" at the end."""

    answer: Answer
    finish: str | None


@dataclass
class Totals:
    """Since the start."""

    requests: int = 0
    completed: int = 0
    tokens: int = 0
    busy_s: float = 0.0  # summed over the slots


class SimulatedEngine:
    def __init__(self, voice: Voice, pace: Pace) -> None:
        self.pace = pace
        self._voice = voice
        self._totals = Totals()
        self._counted_at = time.monotonic()
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._aborts: dict[str, asyncio.Event] = {}

    @property
    def running(self) -> int:
        return self._running

    @property
    def waiting(self) -> int:
        return sum(not turn.done() for turn in self._waiting)

    def totals(self) -> Totals:
        now = time.monotonic()
        self._totals.busy_s += self._running * (now - self._counted_at)
        self._counted_at = now
        return self._totals

    async def generate(
        self, rid: str, prompt: Sequence[int], max_tokens: int
    ) -> AsyncGenerator[Progress, None]:
        """Close it to break it off: its slot is free then.

        Raises:
            KeyError: there is a request of this id already.
        """
        if rid in self._aborts:
            raise KeyError(rid)
        aborted = self._aborts[rid] = asyncio.Event()
        self._totals.requests += 1
        answer = Answer(self._voice, prompt)
        try:
            if not await self._slot(aborted):
                yield Progress(answer, "abort")
                return
            try:
                due = time.monotonic() + -(-len(prompt) // BLOCK) * self.pace.prefill_s
                while True:
                    due += self.pace.block_s
                    if await _passed(due, aborted):
                        yield Progress(answer, "abort")
                        return
                    before = len(answer.ids)
                    answer.extend(max_tokens - before)
                    self._totals.tokens += len(answer.ids) - before
                    if len(answer.ids) == max_tokens:
                        break
                    yield Progress(answer, None)
            finally:
                self._free()
            self._totals.completed += 1
            yield Progress(answer, "length")
        finally:
            del self._aborts[rid]

    def abort(self, prefix: str) -> None:
        """Ends every request whose id begins so, as SGLang does."""
        for rid, aborted in self._aborts.items():
            if rid.startswith(prefix):
                aborted.set()

    async def _slot(self, aborted: asyncio.Event) -> bool:
        """Whether a slot was taken. False: aborted before."""
        if self._running == self.pace.slots:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            abort = asyncio.create_task(aborted.wait())
            try:
                await asyncio.wait((turn, abort), return_when=asyncio.FIRST_COMPLETED)
                if turn.done():
                    return True
            except asyncio.CancelledError:
                if turn.done():
                    self._free()
                raise
            finally:
                abort.cancel()
                turn.cancel()
            return False
        self._change(+1)
        return True

    def _free(self) -> None:
        """The slot goes to whoever has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._change(-1)

    def _change(self, by: int) -> None:
        self.totals()
        self._running += by


async def _passed(due: float, aborted: asyncio.Event) -> bool:
    """Waits until `due`, in monotonic seconds; True if aborted before."""
    try:
        async with asyncio.timeout(due - time.monotonic()):
            await aborted.wait()
    except TimeoutError:
        pass
    return aborted.is_set()
