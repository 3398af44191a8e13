"""One job on its way to one client: each token of its answer once and in order, and exactly one end."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from dllm_stack.messages import Block, Committed, End, Job, Passed, Place, Reply
from dllm_stack.outcomes import ErrorCode, Outcome, Problem
from dllm_stack.work import beyond, parts_of, total


class Arrival(NamedTuple):
    block: Block
    at: float  # monotonic seconds
    passed: Passed | None = None


class Ticket:
    """Takes replies as they come from Redis and makes one answer of them.

    A reply is taken for where in the answer it belongs, whichever attempt it is from: decoding gives every
    attempt the same answer, and so does sampling by its seed. What comes again is compared with what was
    there, and dropped.

    Attributes:
        attempt: the highest attempt that there has been, as far as is known; 0 before any.
        end: how the job ended; None while it is open.
        settled: the queue has ended the job, so there is nothing to cancel there.
        sent_at: when it was sent to be admitted, in monotonic seconds.
        admitted_at: loop time of the admission; None before it.
        prompt_tokens: as told with the last block; 0 before any.
        refused_at: loop time since when a queue that lost the job does not take it back; None: it has it.
    """

    def __init__(self, job: Job, wake: Callable[[], None]) -> None:
        self.job = job
        self.attempt = 0
        self.end: End | None = None
        self.settled = False
        self.sent_at = 0.0
        self.admitted_at: float | None = None
        self.refused_at: float | None = None
        self.prompt_tokens = 0
        self._wake = wake
        self._token_ids: list[int] = []
        self._text = ""
        self._arrivals: list[Arrival] = []

    @property
    def tokens(self) -> int:
        """Of the answer so far."""
        return len(self._token_ids)

    @property
    def committed(self) -> Committed:
        """What has arrived."""
        return Committed(token_ids=self._token_ids.copy(), characters=len(self._text))

    def accept(self, reply: Reply, at: float) -> None:
        if self.end is not None:
            return
        self.attempt = max(self.attempt, reply.attempt)
        if not self._fits(reply, at):
            message = "Two workers did not agree on this answer, or a part of it was lost; send it again."
            self.close(End(outcome=Outcome.FAILED, problem=Problem(ErrorCode.WORKER_LOST, message)))
            return
        if reply.end is not None:
            self.settled = True
            self.end = reply.end
        self._wake()

    def take(self) -> list[Arrival]:
        """The blocks since the last call."""
        arrivals, self._arrivals = self._arrivals, []
        return arrivals

    def close(self, end: End) -> None:
        """Ends the job from the gateway's side. The first end counts."""
        if self.end is None:
            self.end = end
            self._wake()

    def _fits(self, reply: Reply, at: float) -> bool:
        """Adds the reply to the answer. False: it does not fit what was there before."""
        if reply.block is not None:
            rest = self._rest(reply.after, reply.block)
            if rest is None:
                return False
            if rest.token_ids or rest.text:
                self._token_ids += rest.token_ids
                self._text += rest.text
                self.prompt_tokens = rest.prompt_tokens
                self._arrivals.append(Arrival(rest, at, reply.passed))
        if reply.end is None or reply.end.outcome is not Outcome.COMPLETED:
            return True
        return _end_of(reply) == Place(len(self._token_ids), len(self._text))

    def _rest(self, after: Place, block: Block) -> Block | None:
        """What of a block is new; None if it leaves a gap, or repeats something else than was there."""
        tokens = len(self._token_ids) - after.tokens
        characters = len(self._text) - after.characters
        if tokens < 0 or characters < 0:
            return None
        if not tokens and not characters:
            return block
        known_ids = self._token_ids[after.tokens :][: len(block.token_ids)]
        known_text = self._text[after.characters :][: len(block.text)]
        if block.token_ids[:tokens] != known_ids or block.text[:characters] != known_text:
            return None
        left = beyond(parts_of(block), tokens)
        return replace(
            block,
            token_ids=block.token_ids[tokens:],
            text=block.text[characters:],
            logprobs=block.logprobs[tokens:],
            work=total(part.work for part in left),
            parts=left if len(left) > 1 else [],
        )


def _end_of(reply: Reply) -> Place:
    block = reply.block or Block(text="", token_ids=[], prompt_tokens=0)
    return Place(reply.after.tokens + len(block.token_ids), reply.after.characters + len(block.text))
