"""What has come of one answer, and how endpoints put it into bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from dllm_stack.messages import Block, End, Part, TokenLogprob
from dllm_stack.outcomes import Problem
from dllm_stack.work import parts_of
from gateway.pace import Pace, Request
from gateway.ticket import Arrival, Ticket


class Answer:
    """One job's answer.

    Attributes:
        choices: the indices under which the client gets it.
        is_first: of its prompt's answers, so that the prompt is counted once.
        end: how it ended, once all of it has been added.
        costs: of each of the engine's blocks with tokens.
        logprobs: one a token, where the request asks for them; none if they are not kept.
    """

    def __init__(
        self, choices: range, ticket: Ticket, request: Request, *, is_first: bool, keeps_logprobs: bool
    ) -> None:
        """
        Args:
            keeps_logprobs: they are needed again when their block has been sent. Of each token they take as
                much memory as a hundred tokens.
        """
        self.choices = choices
        self.is_first = is_first
        self.ticket = ticket
        self.end: End | None = None
        self.token_ids: list[int] = []
        self.costs: list[Part] = []
        self.logprobs: list[TokenLogprob] = []
        self._texts: list[str] = []
        self._prompt_tokens = 0
        self._keeps_logprobs = keeps_logprobs
        self._pace = Pace(request, is_first=is_first)

    def add(self, arrival: Arrival, seen: float) -> None:
        """`seen`: see `Pace.add`."""
        block = arrival.block
        self._texts.append(block.text)
        self.token_ids.extend(block.token_ids)
        self._prompt_tokens = block.prompt_tokens
        if block.token_ids:
            self.costs += parts_of(block)
        if self._keeps_logprobs:
            self.logprobs += block.logprobs
        self._pace.add(arrival, self.ticket.sent_at, seen)

    def finish(self) -> None:
        """To be called once, when the job has completed and all of its blocks are added."""
        self.end = self.ticket.end
        self._pace.finish()

    def close(self, error: str | None) -> None:
        """To be called last, whatever has become of it."""
        self._pace.close(error)

    @property
    def id(self) -> str:
        return self.ticket.job.id

    @property
    def finish_reason(self) -> str:
        return (self.end and self.end.finish_reason) or "stop"

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def prompt_tokens(self) -> int:
        return self.end.prompt_tokens if self.end else self._prompt_tokens

    @property
    def completion_tokens(self) -> int:
        return self.end.completion_tokens if self.end else len(self.token_ids)


class Rendering(Protocol):
    """How one endpoint writes one request's answers. Empty bytes are not sent.

    Attributes:
        repeats: each event of a stream holds all of the answer so far.
    """

    repeats: bool

    def document(self, answers: list[Answer]) -> Iterator[bytes]:
        """The body of an answer that is not streamed, in pieces."""

    def block(self, answer: Answer, block: Block) -> bytes:
        """The events of a block, which `answer` holds already."""

    def end(self, answer: Answer) -> bytes:
        """The events that end one answer."""

    def close(self, answers: list[Answer]) -> bytes:
        """What follows the last event."""

    def failure(self, problem: Problem) -> bytes:
        """What ends a stream that cannot go on."""
