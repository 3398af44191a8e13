"""What a request is charged for against its tenant's limit of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dllm_stack.limits import Limiter, LimitError, Reservation
from dllm_stack.messages import End, Prompt
from dllm_stack.outcomes import Outcome
from dllm_stack.queue.estimate import LONGEST_GUESS, prompt_bytes, prompt_tokens
from dllm_stack.tenants import Tenant
from gateway.http.channel import Channel
from gateway.ticket import Ticket


class Charge:
    """What one request takes of its tenant's limits. `settle` is due when it is over.

    Args:
        tokens: see `asked`.
        used: how many it has used so far.
    """

    def __init__(
        self,
        limiter: Limiter,
        tenant: Tenant,
        request_id: str,
        channel: Channel,
        tokens: tuple[int, int],
        used: Callable[[], int],
    ) -> None:
        self._limiter = limiter
        self._tenant = tenant
        self._request_id = request_id
        self._channel = channel
        self._tokens = tokens
        self._used = used
        self._reservation: Reservation | None = None

    async def reserve(self) -> None:
        """The answer will tell how much is left.

        Raises:
            RequestError: the limits leave no room, or cannot be checked.
        """
        try:
            self._reservation = await self._limiter.reserve(self._tenant, self._request_id, *self._tokens)
        except LimitError as error:
            self._channel.headers |= error.headers
            raise
        self._channel.headers |= self._reservation.headers
        # A client that has its answer may send the next request at once, and has room for it.
        self._channel.before_end = self.settle

    async def settle(self) -> None:
        self._channel.before_end = None  # else the two would hold each other, and with them the whole request
        if self._reservation is not None:
            await self._reservation.settle(self._used())


def asked(prompts: Iterable[Prompt], max_tokens: int | None) -> tuple[int, int]:
    """The tokens that these jobs ask for, and those that they may need besides."""
    tokens = [_estimate(prompt) for prompt in prompts]
    if max_tokens is None:
        return sum(tokens), len(tokens) * LONGEST_GUESS
    return sum(tokens) + len(tokens) * max_tokens, 0


def used(tickets: Iterable[Ticket]) -> int:
    """The tokens that these jobs have used, as far as they have come."""
    return sum(_used_by(ticket) for ticket in tickets)


def _used_by(ticket: Ticket) -> int:
    end = ticket.end
    if end is not None and end.outcome is Outcome.COMPLETED:
        return end.prompt_tokens + end.completion_tokens
    if ticket.tokens:
        return ticket.prompt_tokens + ticket.tokens
    return _estimate(ticket.job.prompt) if _was_given_up(end) and ticket.admitted_at is not None else 0


def _was_given_up(end: End | None) -> bool:
    """Its client left, or its time is up, which a client may set as short as it likes. Whether an engine was
    at the prompt then, nobody has told. If that were free, it would be a way to keep engines busy for
    nothing."""
    if end is None:
        return False
    return end.outcome is Outcome.EXPIRED or (end.outcome is Outcome.CANCELLED and end.problem is None)


def _estimate(prompt: Prompt) -> int:
    return prompt_tokens(prompt_bytes(prompt))
