"""One job on its way to one client: its replies in order, each once, and exactly one end."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dllm_stack.messages import Block, End, Job, Reply
from dllm_stack.outcomes import ErrorCode, Outcome, Problem


class Arrival(NamedTuple):
    block: Block
    at: float  # loop time, seconds


class Ticket:
    """Takes replies as they come from Redis and keeps those of one run of the job.

    A run is one (attempt, worker). A later run takes over as long as the client has seen nothing of
    the one before; afterwards it ends the ticket, because its blocks would not fit what was sent.

    Attributes:
        attempt: the highest attempt seen or excluded; replies of a lower one are dropped.
        relayed: the client has seen a part of the answer.
        end: how the job ended; None while it is open.
        settled: the queue has ended the job, so there is nothing to cancel there.
        admitted_at: loop time of the admission; None before it.
    """

    def __init__(self, job: Job, wake: Callable[[], None]) -> None:
        self.job = job
        self.attempt = 0
        self.relayed = False
        self.end: End | None = None
        self.settled = False
        self.admitted_at: float | None = None
        self._wake = wake
        self._worker: str | None = None
        self._past_workers: set[str] = set()  # of this attempt
        self._next_seq = 0
        self._arrivals: list[Arrival] = []

    def accept(self, reply: Reply, at: float) -> None:
        if self.end is not None or self._is_stale(reply):
            return
        if reply.attempt != self.attempt or reply.worker != self._worker:
            # An end without a worker is the queue's own word that there will be no further run.
            if self.relayed and reply.worker:
                self.close(_lost("The worker was lost while it streamed this answer; send it again."))
                return
            self._begin(reply)
        if reply.seq < self._next_seq:
            return
        if reply.seq > self._next_seq:
            self.close(_lost("A part of the answer was lost on its way; send the request again."))
            return
        self._next_seq += 1
        if reply.block is not None:
            self._arrivals.append(Arrival(reply.block, at))
        if reply.end is not None:
            self.settled = True
            self.end = reply.end
        self._wake()

    def take(self) -> list[Arrival]:
        """The blocks since the last call. Once it gave any, the answer cannot start anew."""
        arrivals, self._arrivals = self._arrivals, []
        self.relayed = self.relayed or bool(arrivals)
        return arrivals

    def close(self, end: End) -> None:
        """Ends the job from the gateway's side. The first end counts."""
        if self.end is None:
            self.end = end
            self._wake()

    def restart(self, attempts: int) -> None:
        """Forgets what has arrived, and accepts only attempts above `attempts` from now on."""
        self._arrivals = []
        self.attempt = attempts
        self._worker = None
        self._past_workers = set()
        self._next_seq = 0

    def _is_stale(self, reply: Reply) -> bool:
        if reply.attempt != self.attempt:
            return reply.attempt < self.attempt
        return self._worker is None or reply.worker in self._past_workers

    def _begin(self, reply: Reply) -> None:
        past = {*self._past_workers, self._worker or ""} if reply.attempt == self.attempt else set()
        self.restart(reply.attempt)
        self._past_workers = past
        self._worker = reply.worker


def _lost(message: str) -> End:
    return End(outcome=Outcome.FAILED, problem=Problem(ErrorCode.WORKER_LOST, message))
