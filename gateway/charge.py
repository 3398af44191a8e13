"""What a request is charged for against its tenant's limit of tokens."""

from __future__ import annotations

from collections.abc import Iterable

from dllm_stack.messages import End, Prompt
from dllm_stack.outcomes import Outcome
from dllm_stack.queue.estimate import LONGEST_GUESS, prompt_bytes, prompt_tokens
from gateway.ticket import Ticket


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
