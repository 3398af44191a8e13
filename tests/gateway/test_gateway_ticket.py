"""The ticket's state machine, against a plain model of its rules."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dllm_stack.messages import Block, Committed, End, Job, Part, Place, Reply, TextPrompt, Work
from dllm_stack.outcomes import ErrorCode, Outcome, Problem
from dllm_stack.work import parts_of, total
from gateway.ticket import Ticket

JOB = Job(id="0" * 32, pool="tiny", gateway="g", prompt=TextPrompt("Hi"))
ANSWER = "one two three"  # a token two characters, and the last token one
TOKENS = list(range(100, 107))
COMPLETED = End(outcome=Outcome.COMPLETED)


class Sent(NamedTuple):
    """A reply as a worker might have sent it: a part of the answer, between places that any attempt may cut.

    Text lags behind the tokens by up to three characters.
    """

    attempt: int
    begin: int  # tokens
    end: int
    lag: tuple[int, int]  # characters, at begin and end
    last: bool

    @property
    def after(self) -> Place:
        return _place(self.begin, self.lag[0])

    @property
    def until(self) -> Place:
        place = _place(self.end, self.lag[1])
        return Place(place.tokens, max(place.characters, self.after.characters))

    def reply(self) -> Reply:
        text = ANSWER[self.after.characters : self.until.characters]
        return reply(self.attempt, self.after, TOKENS[self.begin : self.end], text, self.last)


def _place(tokens: int, lag: int) -> Place:
    characters = min(2 * tokens, len(ANSWER)) - (0 if tokens == len(TOKENS) else lag)
    return Place(tokens, max(characters, 0))


def reply(attempt: int, after: Place, token_ids: list[int], text: str, last: bool = False) -> Reply:
    block = Block(text=text, token_ids=token_ids, prompt_tokens=1) if token_ids or text or not last else None
    end = COMPLETED if last else None
    return Reply(job_id=JOB.id, worker="w", attempt=attempt, after=after, block=block, end=end)


class Take:
    """The client is sent what is there."""


class Close:
    """The client goes away."""


class Fail:
    """The queue ends the job."""


@st.composite
def sent(draw: st.DrawFn) -> Sent:
    begin = draw(st.integers(0, len(TOKENS)))
    end = draw(st.integers(begin, len(TOKENS)))
    lag = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    return Sent(draw(st.integers(1, 3)), begin, end, (lag[0], lag[1]), draw(st.booleans()))


# Attempts that go through the answer, so that it is not one gap after another.
attempts = st.lists(st.integers(0, len(TOKENS)), max_size=5).map(
    lambda cuts: [
        Sent(1, a, b, (0, 0), last=b == len(TOKENS))
        for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), len(TOKENS)], strict=True)
    ]
)
steps = st.one_of(
    attempts,
    st.one_of(sent(), st.just(Take()), st.just(Close()), st.just(Fail())).map(lambda one: [one]),
)
FAILED = End(outcome=Outcome.FAILED, problem=Problem(ErrorCode.ENGINE_ERROR, "as the queue puts it"))


class Model:
    """What `Ticket` promises, with nothing but how far the answer has come."""

    def __init__(self) -> None:
        self.at = Place(0, 0)
        self.end: str | None = None

    def accept(self, step: Sent) -> None:
        if self.end:
            return
        if step.after.tokens > self.at.tokens or step.after.characters > self.at.characters:
            self.end = "lost"
            return
        until = step.until
        self.at = Place(max(self.at.tokens, until.tokens), max(self.at.characters, until.characters))
        if step.last:
            self.end = "completed" if until == self.at else "lost"


def told(end: End | None) -> str | None:
    if end is None:
        return None
    if end.problem is not None and end.problem.code is ErrorCode.WORKER_LOST:
        return "lost"
    return str(end.outcome)


@settings(max_examples=2000, deadline=None)
@given(st.lists(steps, max_size=8).map(lambda parts: [step for part in parts for step in part]))
def test_output_is_the_answer_once_and_one_end(history: list[Sent | Take | Close | Fail]) -> None:
    ticket, model = Ticket(JOB, lambda: None), Model()
    blocks: list[Block] = []
    ends: list[End] = []
    for step in history:
        match step:
            case Sent():
                ticket.accept(step.reply(), at=0.0)
                model.accept(step)
            case Take():
                blocks += [arrival.block for arrival in ticket.take()]
            case Close():
                ticket.close(End(outcome=Outcome.CANCELLED))
                model.end = model.end or "cancelled"
            case Fail():
                # It belongs nowhere: what it says of a place does not count.
                ticket.accept(
                    Reply(job_id=JOB.id, worker="", attempt=9, after=Place(99, 99), end=FAILED), at=0.0
                )
                model.end = model.end or "failed"
        if ticket.end is not None and ticket.end not in ends:
            ends.append(ticket.end)
        assert told(ticket.end) == model.end
    blocks += [arrival.block for arrival in ticket.take()]

    assert len(ends) <= 1
    assert [each for block in blocks for each in block.token_ids] == TOKENS[: model.at.tokens]
    assert "".join(block.text for block in blocks) == ANSWER[: model.at.characters]
    assert all(block.token_ids or block.text for block in blocks)
    assert ticket.settled == (model.end in ("completed", "failed"))


def test_what_has_arrived_can_be_told_to_the_queue() -> None:
    ticket = Ticket(JOB, lambda: None)
    ticket.accept(reply(2, Place(0, 0), [5, 6], "ab"), at=0.0)
    assert ticket.take()
    ticket.accept(reply(2, Place(2, 2), [7], "c"), at=0.0)
    assert ticket.committed == Committed(token_ids=[5, 6, 7], characters=3)
    assert ticket.attempt == 2


def test_a_blocks_work_comes_once() -> None:
    def sent(attempt: int, after: Place, token_ids: list[int], forwards: int) -> Reply:
        block = Block(text="", token_ids=token_ids, prompt_tokens=1, work=Work(forwards=forwards))
        return Reply(job_id=JOB.id, worker="w", attempt=attempt, after=after, block=block)

    ticket = Ticket(JOB, lambda: None)
    for each in (
        sent(1, Place(0, 0), [5, 6], 3),
        sent(1, Place(0, 0), [5, 6], 3),
        sent(2, Place(2, 0), [7], 4),
        sent(2, Place(2, 0), [7, 8], 4),  # its first token has told the block's work
    ):
        ticket.accept(each, at=0.0)
    works = [(arrival.block.token_ids, arrival.block.work.forwards) for arrival in ticket.take()]
    assert works == [([5, 6], 3), ([7], 4), ([8], 0)]


def test_of_blocks_sent_as_one_each_is_told_once() -> None:
    def sent(after: int, *parts: tuple[int, int]) -> Reply:
        """Parts of so many tokens and forwards."""
        each = [Part(tokens, Work(forwards=forwards)) for tokens, forwards in parts]
        ids = list(range(after, after + sum(part.tokens for part in each)))
        work = total(part.work for part in each)
        block = Block(text="", token_ids=ids, prompt_tokens=1, work=work, parts=each)
        return Reply(job_id=JOB.id, worker="w", attempt=1, after=Place(after, 0), block=block)

    ticket = Ticket(JOB, lambda: None)
    ticket.accept(sent(0, (2, 3), (3, 4)), at=0.0)
    ticket.accept(sent(0, (2, 3), (4, 5), (1, 6)), at=0.0)  # by another attempt
    costs = [
        (part.tokens, part.work.forwards) for arrival in ticket.take() for part in parts_of(arrival.block)
    ]
    assert costs == [(2, 3), (3, 4), (1, 0), (1, 6)]
    assert ticket.tokens == 7


@pytest.mark.parametrize(
    "second",
    [
        reply(2, Place(0, 0), [5, 9], "ab"),  # other tokens
        reply(2, Place(0, 0), [5, 6], "aX"),  # the same tokens, another text
        reply(2, Place(0, 0), [5, 6, 7], "aXc"),
        reply(2, Place(3, 2), [7], "c"),  # a gap of tokens
        reply(2, Place(2, 3), [7], "c"),  # a gap of text
        reply(2, Place(0, 0), [5], "a", last=True),  # a shorter answer
        reply(2, Place(2, 1), [], "", last=True),
    ],
)
def test_what_does_not_fit_ends_the_answer(second: Reply) -> None:
    ticket = Ticket(JOB, lambda: None)
    ticket.accept(reply(1, Place(0, 0), [5, 6], "ab"), at=0.0)
    ticket.accept(second, at=0.0)
    assert told(ticket.end) == "lost"
    assert not ticket.settled  # so that the job is cancelled
    assert [arrival.block.text for arrival in ticket.take()] == ["ab"]
