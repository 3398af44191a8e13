"""The ticket's state machine, against a plain model of its rules."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from dllm_stack.messages import Block, End, Job, Reply, TextPrompt
from dllm_stack.outcomes import ErrorCode, Outcome, Problem
from gateway.ticket import Ticket

JOB = Job(id="0" * 32, pool="tiny", gateway="g", prompt=TextPrompt("Hi"))


class Sent(NamedTuple):
    """A reply as a worker, or with worker "" the queue itself, might have sent it."""

    attempt: int
    worker: str
    seq: int
    last: bool

    @property
    def text(self) -> str:
        return f"{self.attempt}{self.worker}{self.seq} "

    def reply(self) -> Reply:
        block = None if self.last else Block(text=self.text, token_ids=[1], prompt_tokens=1)
        outcome = Outcome.COMPLETED if self.worker else Outcome.FAILED
        return Reply(
            job_id=JOB.id,
            worker=self.worker,
            attempt=self.attempt,
            seq=self.seq,
            block=block,
            end=End(outcome=outcome) if self.last else None,
        )


class Take:
    """The client is sent what is there."""


class Restart:
    """Redis has lost the job, and it is admitted again."""


class Close:
    """The client goes away."""


workers = st.builds(Sent, st.integers(1, 3), st.sampled_from("ab"), st.integers(0, 3), st.booleans())
queue = st.builds(Sent, st.integers(2, 4), st.just(""), st.just(0), st.just(True))
in_order = st.tuples(st.integers(1, 3), st.sampled_from("ab"), st.integers(1, 4)).map(
    lambda run: [Sent(run[0], run[1], seq, seq == run[2]) for seq in range(run[2] + 1)]
)
steps = st.one_of(
    in_order,
    st.one_of(workers, queue, st.just(Take()), st.just(Restart()), st.just(Close())).map(lambda one: [one]),
    workers.map(lambda sent: [sent, sent]),
)


class Model:
    """What `Ticket` promises, with nothing but a history of what it was told."""

    def __init__(self) -> None:
        self.run: tuple[int, str] | None = None
        self.barred: set[tuple[int, str]] = set()
        self.floor = 0
        self.got: list[str] = []
        self.sent: list[str] = []
        self.end: str | None = None

    def accept(self, sent: Sent) -> None:
        run = (sent.attempt, sent.worker)
        if self.end or run in self.barred or sent.attempt <= self.floor:
            return
        if self.run is not None and sent.attempt < self.run[0]:
            return
        if run != self.run:
            if self.sent and sent.worker:
                self.end = "lost"
                return
            if self.run is not None:
                self.barred.add(self.run)
            self.run, self.got, self.next = run, [], 0
        if sent.seq > self.next:
            self.end = "lost"
        elif sent.seq == self.next:
            self.next += 1
            if sent.last:
                self.end = "completed" if sent.worker else "failed"
            else:
                self.got.append(sent.text)

    def take(self) -> None:
        self.sent += self.got
        self.got = []

    def restart(self) -> None:
        if self.sent or self.end:
            return  # the gateway does this only to open jobs of which nothing was relayed
        self.floor = max(self.floor, self.run[0] if self.run else 0) + 1
        self.run, self.got = None, []


def told(end: End | None) -> str | None:
    if end is None:
        return None
    if end.problem is None:
        return str(end.outcome)
    assert end.problem.code is ErrorCode.WORKER_LOST
    return "lost"


@settings(max_examples=1000, deadline=None)
@given(st.lists(steps, max_size=12).map(lambda parts: [step for part in parts for step in part]))
def test_output_is_one_run_and_one_end(history: list[Sent | Take | Restart | Close]) -> None:
    ticket, model = Ticket(JOB, lambda: None), Model()
    output: list[str] = []
    ends: list[End] = []
    for step in history:
        match step:
            case Sent():
                ticket.accept(step.reply(), at=0.0)
                model.accept(step)
            case Take():
                output += [arrival.block.text for arrival in ticket.take()]
                model.take()
            case Restart():
                if not ticket.relayed and ticket.end is None:
                    ticket.restart(ticket.attempt + 1)
                model.restart()
            case Close():
                ticket.close(End(outcome=Outcome.CANCELLED))
                model.end = model.end or "cancelled"
        if ticket.end is not None and ticket.end not in ends:
            ends.append(ticket.end)
        assert told(ticket.end) == model.end
    output += [arrival.block.text for arrival in ticket.take()]
    model.take()

    assert output == model.sent
    assert len(ends) <= 1
    # Whatever happened, the client saw the beginning of one run, without a gap.
    runs = {text[:2] for text in output}
    assert len(runs) <= 1
    assert output == [f"{run}{seq} " for run in runs for seq in range(len(output))]
    assert ticket.settled == (model.end in ("completed", "failed"))


def test_the_queues_last_word_reaches_a_client_that_has_seen_a_part() -> None:
    ticket = Ticket(JOB, lambda: None)
    ticket.accept(Sent(1, "a", 0, last=False).reply(), at=0.0)
    assert len(ticket.take()) == 1
    problem = Problem(ErrorCode.WORKER_LOST, "as the queue puts it")
    end = End(outcome=Outcome.FAILED, problem=problem)
    ticket.accept(Reply(job_id=JOB.id, worker="", attempt=2, seq=0, end=end), at=0.0)
    assert ticket.end == end
    assert ticket.settled
