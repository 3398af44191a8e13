"""Whatever dies, is repeated or is set back: the client gets the answer of the undisturbed run, once.

The worker's `Run` and the gateway's `Ticket` are the real ones. Queue and engine are fakes, so that thousands
of histories fit into a minute: the queue follows commit.lua and finish.lua, the engine knows its answer.
"""

from __future__ import annotations

import asyncio
import copy
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from dllm_stack.decoding import EngineOptions
from dllm_stack.messages import (
    Block,
    Claim,
    Committed,
    Decoding,
    End,
    Job,
    Place,
    Reply,
    TokenPrompt,
    Trace,
    Work,
)
from dllm_stack.outcomes import ErrorCode, Outcome
from dllm_stack.queue import Committal, PoolQueue
from dllm_stack.redis import RedisError
from dllm_stack.work import NONE, parts_of, total
from gateway.ticket import Ticket
from worker import run as run_module
from worker.engine.client import Finish, Progress
from worker.engine.supervisor import Engine
from worker.metrics import WorkerMetrics
from worker.prompt import Limits, Renderer
from worker.run import Run, Runner
from worker.text import decided

JOB_ID, EOS = "0" * 32, 0
SPECIAL = "<end>"
CONTEXT = 5  # prompt tokens that may have a say in the text of the first token


class FakeRenderer:
    """Token 0 is special, each other one is some bytes; a text loses a space that it begins with, as with
    tokenizers whose words bring their own."""

    def __init__(self, tokens: list[bytes]) -> None:
        self._bytes = [SPECIAL.encode(), *tokens]

    def check_length(self, *_: object) -> None: ...

    async def render(self, prompt: TokenPrompt, limits: object) -> list[int]:
        return prompt.ids

    def decode(self, token_ids: list[int], *, special: bool) -> str:
        shown = [self._bytes[each] for each in token_ids if special or each != EOS]
        return b"".join(shown).decode(errors="replace").removeprefix(" ")


@dataclass(frozen=True)
class Case:
    renderer: FakeRenderer
    prompt: list[int]
    model: list[int]  # what it generates if nothing stops it
    decoding: Decoding

    @property
    def enders(self) -> set[int]:
        """Tokens that end an answer."""
        return set() if self.decoding.ignore_eos else {EOS, *self.decoding.stop_token_ids}

    def text(self, token_ids: list[int], *, special: bool) -> str:
        context = self.prompt[-CONTEXT:]
        before = self.renderer.decode(context, special=special)
        return self.renderer.decode(context + token_ids, special=special)[len(before) :]

    def undisturbed(self) -> tuple[list[int], str, str, str | int | None]:
        """Token ids, text, finish reason and what matched, found by looking at all of it after each token."""
        most = self.decoding.max_tokens or 0
        for count in range(1, most + 1):
            token_ids = self.model[:count]
            visible = self.text(token_ids, special=False)
            for text in (visible, self.text(token_ids, special=True)):
                places = {stop: decided(text).find(stop) for stop in self.decoding.stop}
                if found := {stop: at for stop, at in places.items() if at >= 0}:
                    stop = min(found, key=found.__getitem__)
                    return token_ids, visible.partition(stop)[0], "stop", stop
            if token_ids[-1] in self.enders:
                return token_ids, self.text(token_ids[:-1], special=False), "stop", token_ids[-1]
        return self.model[:most], self.text(self.model[:most], special=False), "length", None


class FakeEngine:
    """Generates `Case.model` in blocks. It ends an answer as SGLang does: it looks for stop strings only in
    the newest tokens, and takes the first in the list."""

    ready = True

    def __init__(self, case: Case, block_size: int, longest_prompt: int, first: int) -> None:
        self.info = SimpleNamespace(
            limits=Limits(prompt=longest_prompt, context=1000), algorithm="LowConfidence"
        )
        self._case = case
        self._block_size = block_size
        self._first = first  # block's first token

    async def generate(
        self,
        token_ids: list[int],
        max_tokens: int,
        decoding: Decoding,
        options: EngineOptions,
        trace: Trace | None,
    ) -> FakeGeneration:
        case = self._case
        begin = len(token_ids) - len(case.prompt)
        assert token_ids == case.prompt + case.model[:begin]
        whole = (len(token_ids) - self._first) % self._block_size == 0
        assert begin == 0 or whole, "goes on in the middle of a block"
        assert len(token_ids) <= self.info.limits.prompt
        assert max_tokens > 0
        return FakeGeneration(case, begin, self._block_size, max_tokens, self._first)


class FakeGeneration:
    def __init__(self, case: Case, begin: int, block_size: int, max_tokens: int, first: int) -> None:
        self._case = case
        self._first = first
        self._begin = self._at = begin
        self._block_size = block_size
        self._end = begin + max_tokens

    async def next(self, within_s: float = 0) -> Progress:
        await asyncio.sleep(0)
        case, position = self._case, len(self._case.prompt) + self._at - self._first
        whole = (position // self._block_size + 1) * self._block_size - position
        block = case.model[self._at : self._at + whole]
        count, finish = self._ending(block)
        work = [cost(self._at), *[NONE] * (count - 1)]
        self._at += count
        if finish is None and self._at % 3 == 0:  # SGLang may put two blocks into one event
            more = await self.next()
            return Progress(block[:count] + more.token_ids, 0, more.finish, work + more.work)
        return Progress(block[:count], 0, finish, work)

    def _ending(self, block: list[int]) -> tuple[int, Finish | None]:
        decoding, room = self._case.decoding, self._end - self._at
        output = self._case.model[self._begin : self._at]
        for stop in decoding.stop:
            for count in range(1, len(block) + 1):
                window = (output + block[:count])[-len(stop) - 1 - len(block) :]
                if count <= room and stop in self._case.renderer.decode(window, special=True):
                    return count, Finish("stop", stop)
        for count, token in enumerate(block[:room], 1):
            if token in self._case.enders:
                return count, Finish("stop", token)
        return (room, Finish("length")) if len(block) >= room else (len(block), None)

    async def stop(self) -> bool:
        return True


def cost(begin: int) -> Work:
    """Of the block that begins there: no sum of others'."""
    return Work(forwards=1 << begin)


class Died(BaseException):
    """kill -9 of the worker: nothing of it may handle that."""


@dataclass
class Redis:
    """What it holds of the one job; None once there is none. `stream` is the gateway's."""

    answer: list[int] = field(default_factory=list)
    characters: int = 0
    attempt: int = 0
    worker: str | None = None
    known: bool = True
    stream: list[Reply] = field(default_factory=list)


FAULTS = ["none", "none", "unheard", "unanswered", "set back", "emptied", "killed before", "killed after"]


class FakeQueue:
    """`PoolQueue` of one job, whose calls fail as the history says."""

    def __init__(self, history: list[tuple[str, int]]) -> None:
        self.redis = Redis()
        self._history = history
        self._past = [copy.deepcopy(self.redis)]

    def remember(self) -> None:
        self._past.append(copy.deepcopy(self.redis))

    def _before(self) -> str:
        """Strikes; what is to happen after the call is returned."""
        fault, number = self._history.pop() if self._history else ("none", 0)
        match fault:
            case "set back":
                self.redis = copy.deepcopy(self._past[number % len(self._past)])
            case "emptied":
                self.redis = Redis(known=False)
            case "killed before":
                raise Died
            case "unheard":
                raise RedisError
        return fault

    def _after(self, fault: str) -> None:
        self.remember()
        match fault:
            case "killed after":
                raise Died
            case "unanswered":
                raise RedisError

    def _holds(self, worker: str, attempt: int) -> bool:
        return self.redis.known and (self.redis.worker, self.redis.attempt) == (worker, attempt)

    async def commit(self, worker: str, job_id: str, attempt: int, after: Place, block: Block) -> Committal:
        fault = self._before()
        redis, there = self.redis, len(self.redis.answer)
        if not self._holds(worker, attempt):
            return Committal(False, 0)
        if after.tokens == there:
            redis.answer += block.token_ids
            redis.characters = after.characters + len(block.text)
            self._reply(worker, attempt, after, block, None)
        self._after(fault)
        return Committal(True, len(redis.answer))

    async def finish(
        self, worker: str, job_id: str, attempt: int, after: Place, end: End, block: Block | None = None
    ) -> bool:
        fault = self._before()
        if not self._holds(worker, attempt):
            return False
        if end.outcome is Outcome.CANCELLED or after.tokens > len(self.redis.answer):
            self.redis.worker = None
        else:
            self._reply(worker, attempt, after, block, end)
            self.redis.known = False
        self._after(fault)
        return True

    async def release(self, worker: str, job_id: str, attempt: int, *, counts: bool) -> str:
        raise AssertionError("nothing here makes a run give up")

    def _reply(self, worker: str, attempt: int, after: Place, block: Block | None, end: End | None) -> None:
        reply = Reply(job_id=JOB_ID, worker=worker, attempt=attempt, after=after, block=block, end=end)
        self.redis.stream.append(reply)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A text in random characters, cut into tokens anywhere, and stop strings that may be in it."""
    text = draw(st.text(st.sampled_from("aab \n中🙂"), min_size=1, max_size=40))
    data = text.encode() + draw(st.sampled_from([b"", b"", b"\xff\xf0"]))
    cuts = sorted(draw(st.sets(st.integers(1, len(data)), max_size=30)) | {len(data)})
    tokens = [data[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]
    model = list(range(1, len(tokens) + 1))
    ignore_eos = draw(st.booleans())
    if ignore_eos:
        for at in draw(st.lists(st.integers(0, len(model)), max_size=2)):
            model.insert(at, EOS)
    else:  # a block-diffusion model fills the rest of its last block with it
        model[draw(st.integers(1, len(model))) :] = [EOS] * 9
    most = draw(st.integers(1, len(model)))
    begin = draw(st.integers(0, len(text) - 1))
    part = text[begin : begin + draw(st.integers(1, 6))]
    stops = [[], [part], ["ab\n", part], [part + SPECIAL, "中🙂"], [SPECIAL + part]]
    stop: list[str] = draw(st.sampled_from(stops))
    # Where both are in one block, SGLang lets a stop string win, wherever it is.
    ended_by_token = not stop and draw(st.booleans())
    enders = [draw(st.sampled_from(model))] if ended_by_token else []
    decoding = Decoding(max_tokens=most, stop=stop, stop_token_ids=enders, ignore_eos=ignore_eos)
    prompt = draw(st.lists(st.integers(0, len(tokens)), min_size=1, max_size=9))
    return Case(FakeRenderer(tokens), prompt, model, decoding)


class FakeClock:
    """Of a run: `steps_s` go by between its looks at it, in turn."""

    def __init__(self) -> None:
        self.steps_s = [1.0]
        self._now = 0.0

    def monotonic(self) -> float:
        self.steps_s.append(step := self.steps_s.pop(0))
        self._now += step
        return self._now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    monkeypatch.setattr(run_module, "_FIRST_RETRY_S", 0)
    clock = FakeClock()
    monkeypatch.setattr(run_module, "time", clock)
    return clock


async def live(
    case: Case,
    history: list[tuple[str, int]],
    block_sizes: list[int],
    longest: int,
    follow: bool,
    streamed: bool = True,
) -> Ticket:
    """Runs the job, attempt after attempt, as router and gateway do, until its ticket has an end."""
    prompt = TokenPrompt(case.prompt)
    job = Job(id=JOB_ID, pool="tiny", gateway="g", prompt=prompt, decoding=case.decoding, streamed=streamed)
    ticket, queue, workers = Ticket(job, lambda: None), FakeQueue(history), 0
    while True:
        # The gateway reads from the beginning, as it does after each error: what it has seen comes again.
        for reply in queue.redis.stream:
            ticket.accept(reply, at=0.0)
        if ticket.end is not None:
            return ticket
        redis = queue.redis
        if not redis.known:  # the gateway admits it again
            ticket.attempt += 3
            committed = ticket.committed
            redis.answer, redis.characters = committed.token_ids, committed.characters
            redis.attempt, redis.worker, redis.known = ticket.attempt, None, True
            queue.remember()
        workers += 1
        worker = f"w{workers}"
        redis.attempt, redis.worker = redis.attempt + 1, worker
        committed = Committed(token_ids=redis.answer.copy(), characters=redis.characters)
        claim = Claim(job, redis.attempt, committed)
        queue.remember()
        block_size = block_sizes[workers % len(block_sizes)]
        run = Run(runner_of(worker, queue, case, block_size, longest, follow), claim)
        with suppress(Died):
            await run.execute()


def runner_of(
    worker: str, queue: FakeQueue, case: Case, block_size: int, longest: int, follow: bool = False
) -> Runner:
    first = len(case.prompt) if follow else 0
    return Runner(
        worker,
        cast(PoolQueue, queue),
        cast(Engine, FakeEngine(case, block_size, longest, first)),
        cast(Renderer, case.renderer),
        METRICS,
        block_size,
        stall_s=60,
        blocks_follow_prompt=follow,
    )


METRICS = WorkerMetrics(CollectorRegistry(), "tiny")


def output(blocks: list[Block]) -> tuple[list[int], str, list[int]]:
    """Token ids, text, and prompt lengths of what the client was sent."""
    token_ids = [each for block in blocks for each in block.token_ids]
    return token_ids, "".join(block.text for block in blocks), [block.prompt_tokens for block in blocks]


histories = st.lists(st.tuples(st.sampled_from(FAULTS), st.integers(0, 50)), max_size=12)


@settings(max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    case=cases(),
    history=histories,
    block_sizes=st.lists(st.integers(1, 8), min_size=1, max_size=3),
    longest=st.integers(9, 60),
    follow=st.booleans(),
    streamed=st.booleans(),
    steps_s=st.lists(st.sampled_from([0.02, 0.06, 0.2]), min_size=1, max_size=4),
)
def test_the_client_gets_the_answer_of_the_undisturbed_run(
    case: Case,
    history: list[tuple[str, int]],
    block_sizes: list[int],
    longest: int,
    follow: bool,
    streamed: bool,
    steps_s: list[float],
    clock: FakeClock,
) -> None:
    clock.steps_s = steps_s.copy()
    ticket = asyncio.run(live(case, history.copy(), block_sizes, longest, follow, streamed))
    token_ids, text, reason, matched = case.undisturbed()
    end = cast(Any, ticket.end)
    assert end.problem is None
    blocks = [arrival.block for arrival in ticket.take()]
    assert output(blocks)[:2] == (token_ids, text)
    if len(set(block_sizes)) == 1:
        first = block_sizes[0] - (0 if follow else len(case.prompt) % block_sizes[0])
        begins = [0, *range(first, len(token_ids), block_sizes[0])]
        assert total(block.work for block in blocks) == total(map(cost, begins))
        # Each block's is told by itself, also where several were sent as one.
        works = [part.work for block in blocks for part in parts_of(block)]
        assert [work for work in works if work != NONE] == [cost(begin) for begin in begins]
    assert (end.outcome, end.finish_reason, end.matched_stop) == (Outcome.COMPLETED, reason, matched)
    assert (end.prompt_tokens, end.completion_tokens) == (len(case.prompt), len(token_ids))


async def test_another_answer_than_the_one_begun_fails_and_says_so() -> None:
    case = Case(FakeRenderer([b"a", b"b", b"c", b"d"]), [1], [1, 2, 3, 4], Decoding(max_tokens=4))
    job = Job(id=JOB_ID, pool="tiny", gateway="g", prompt=TokenPrompt(case.prompt), decoding=case.decoding)
    queue = FakeQueue([])
    queue.redis = Redis(answer=[1, 4], characters=2, attempt=2, worker="w")
    claim = Claim(job, 2, Committed(token_ids=[1, 4], characters=2))
    assert await Run(runner_of("w", queue, case, 4, 60), claim).execute() == "failed"
    (reply,) = queue.redis.stream
    assert reply.end is not None
    assert reply.end.problem is not None
    assert reply.end.problem.code is ErrorCode.WORKER_LOST
    assert reply.end.problem.message.startswith("The engine did not go on with the answer that was begun")


async def test_a_run_that_lacks_what_redis_has_lost_gives_its_job_back() -> None:
    """A worker may hold the same attempt twice, if Redis was set back to before it got it."""
    case = Case(FakeRenderer([b"a", b"b", b"c", b"d"]), [1], [1, 2, 3, 4], Decoding(max_tokens=4))
    job = Job(id=JOB_ID, pool="tiny", gateway="g", prompt=TokenPrompt(case.prompt), decoding=case.decoding)
    queue = FakeQueue([])
    queue.redis = Redis(answer=[1], characters=1, attempt=2, worker="w")
    claim = Claim(job, 2, Committed(token_ids=[1, 2], characters=2))
    assert await Run(runner_of("w", queue, case, 1, 60), claim).execute() == "cancelled"
    assert (queue.redis.answer, queue.redis.worker, queue.redis.stream) == ([1], None, [])


@pytest.mark.parametrize(("streamed", "texts"), [(True, list("abcdefgh")), (False, ["a", "bcd", "efg", "h"])])
async def test_blocks_of_an_answer_that_nobody_watches_go_together(
    clock: FakeClock, streamed: bool, texts: list[str]
) -> None:
    """The first at once, then what came in 0.1 s; the last with the end."""
    letters = FakeRenderer([bytes([97 + each]) for each in range(8)])
    case = Case(letters, [1], list(range(1, 9)), Decoding(max_tokens=8))
    clock.steps_s = [0.04]
    ticket = await live(case, [], [1], 60, follow=True, streamed=streamed)
    assert [arrival.block.text for arrival in ticket.take()] == texts
