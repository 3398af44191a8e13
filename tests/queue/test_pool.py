"""The queue's transitions one by one, on a real Valkey."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from typing import Any

import pytest

from dllm_stack.messages import (
    Block,
    Cancel,
    Claim,
    End,
    Job,
    Reply,
    TextPrompt,
    WorkerCard,
    encode,
)
from dllm_stack.outcomes import ErrorCode, Outcome
from dllm_stack.queue import START, PoolQueue, Reclaimed
from dllm_stack.queue.pool import DISPATCH_AT_MOST
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings

POOL = "tiny"
BLOCK = Block(text="hello", token_ids=[1, 2, 3], prompt_tokens=5)
DONE = End(outcome=Outcome.COMPLETED, finish_reason="stop", prompt_tokens=5, completion_tokens=3)


def job(number: int, *, gateway: str = "g", stream: bool = False, text: str = "hi") -> Job:
    return Job(id=f"{number:032x}", pool=POOL, gateway=gateway, prompt=TextPrompt(text), stream=stream)


def card(worker: str = "w", slots: int = 1) -> WorkerCard:
    return WorkerCard(id=worker, pool=POOL, slots=slots, state="ready")


@pytest.fixture
def queue(connections: Connections) -> PoolQueue:
    return PoolQueue(connections, POOL, QueueSettings(max_waiting_jobs=3, max_attempts=2))


async def beat(queue: PoolQueue, worker: str = "w", slots: int = 1, **keywords: Any) -> list[str]:
    return await queue.worker_heartbeat(card(worker, slots), **({"acked": START, "held": []} | keywords))


async def kill(connections: Connections, kind: str, name: str) -> None:
    """Lets the heartbeat of a worker or a gateway run out."""
    await connections.commands.zadd(f"dllm:{{{POOL}}}:{kind}", {name: 0})


async def claims(queue: PoolQueue, worker: str = "w") -> list[Any]:
    return (await queue.commands(worker, START))[1]


async def replies(queue: PoolQueue, gateway: str = "g") -> list[Reply]:
    return (await queue.replies(gateway, START))[1]


async def pass_time(connections: Connections, milliseconds: int) -> None:
    """Redis' clock moves by so much, as all that the queue has written down sees it; back if negative."""
    redis: Any = connections.commands
    prefix = f"dllm:{{{POOL}}}:"
    for key in ("workers", "gateways"):
        for name, dies_at in await redis.zrange(prefix + key, 0, -1, withscores=True):
            await redis.zadd(prefix + key, {name: dies_at - milliseconds})
    for id, order in await redis.zrange(prefix + "waiting", 0, -1, withscores=True):
        order -= 1000 * milliseconds
        await redis.zadd(prefix + "waiting", {id: order})
        await redis.hset(f"{prefix}job:{id.decode()}", "order", f"{order:.0f}")
    if watched := await redis.get(prefix + "watched"):
        await redis.set(prefix + "watched", int(watched) - milliseconds)
    if at := await redis.hget(prefix + "drain", "at"):
        await redis.hset(prefix + "drain", "at", str(int(at) - milliseconds))


async def keys_of_jobs(connections: Connections) -> list[Any]:
    """Every key but those that live as long as a worker, a gateway or the pool."""
    lasting = re.compile(rb"worker:|workers|last_worker|watched|gateways|drain|wake|commands:|replies:")
    keys: list[Any] = await connections.commands.keys("*")
    return [key for key in keys if not lasting.search(key)]


async def test_a_job_goes_to_a_free_slot_and_its_replies_to_its_gateway(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    assert await queue.admit(job(1)) is None
    [dispatched] = await queue.dispatch()
    assert (dispatched.job_id, dispatched.worker, dispatched.attempt) == (job(1).id, "w", 1)
    assert await claims(queue) == [Claim(job(1), 1)]

    assert await queue.commit("w", job(1).id, 1, 0, BLOCK)
    assert await queue.finish("w", job(1).id, 1, 1, DONE)
    assert await replies(queue) == [
        Reply(job_id=job(1).id, worker="w", attempt=1, seq=0, block=BLOCK),
        Reply(job_id=job(1).id, worker="w", attempt=1, seq=1, end=DONE),
    ]
    assert await keys_of_jobs(connections) == []


async def test_no_job_leaves_the_queue_before_a_slot_is_free(queue: PoolQueue) -> None:
    await beat(queue, slots=2)
    for number in range(3):
        await queue.admit(job(number))
    assert [d.job_id for d in await queue.dispatch()] == [job(0).id, job(1).id]
    assert await queue.dispatch() == []
    await queue.finish("w", job(0).id, 1, 0, DONE)
    assert [d.job_id for d in await queue.dispatch()] == [job(2).id]


async def test_the_first_come_is_the_first_served_when_the_clock_goes_back(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue, slots=3)
    await queue.admit(job(3))
    await pass_time(connections, -3_600_000)
    await queue.admit(job(2))
    await queue.admit(job(1))
    assert [d.job_id for d in await queue.dispatch()] == [job(3).id, job(2).id, job(1).id]


async def test_more_jobs_than_one_call_dispatches_follow_at_once(connections: Connections) -> None:
    queue = PoolQueue(connections, POOL, QueueSettings())
    numbers = range(DISPATCH_AT_MOST + 1)
    for worker_slots in (0, len(numbers)):
        await beat(queue, slots=worker_slots)
        if not worker_slots:
            await asyncio.gather(*(queue.admit(job(number)) for number in numbers))
    await queue.wait()
    assert len(await queue.dispatch()) == DISPATCH_AT_MOST
    assert await woken(queue, asyncio.sleep(0))
    assert len(await queue.dispatch()) == 1


async def test_jobs_go_to_the_worker_with_the_most_free_slots(queue: PoolQueue) -> None:
    await beat(queue, "small", 1)
    await beat(queue, "large", 2)
    for number in range(3):
        await queue.admit(job(number))
    workers = [d.worker for d in await queue.dispatch()]
    assert workers[0] == "large"
    assert sorted(workers) == ["large", "large", "small"]


async def test_a_full_queue_refuses_with_a_measured_retry_after(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    for number in range(3):
        assert await queue.admit(job(number)) is None
    problem = await queue.admit(job(3))
    assert problem is not None
    assert (problem.code, problem.status, problem.retry_after_s) == (ErrorCode.QUEUE_FULL, 429, 1)

    await connections.commands.hset(f"dllm:{{{POOL}}}:drain", "interval", 2500)
    problem = await queue.admit(job(3))
    assert problem is not None
    assert problem.retry_after_s == 10  # (3 waiting + 1) x 2.5 s
    await connections.commands.hset(f"dllm:{{{POOL}}}:drain", "interval", 60_000)
    problem = await queue.admit(job(3))
    assert problem is not None
    assert problem.retry_after_s == 30  # capped


async def test_retry_after_is_measured_only_while_somebody_waits(
    queue: PoolQueue, connections: Connections
) -> None:
    async def end(number: int) -> None:
        await beat(queue)
        await queue.dispatch()
        await pass_time(connections, 1000)
        assert await queue.finish("w", job(number).id, 1, 0, DONE)

    async def retry_after() -> int | None:
        problem = await queue.admit(job(99))
        assert problem is not None
        return problem.retry_after_s

    await beat(queue)
    await queue.admit(job(1))
    await end(1)
    await pass_time(connections, 300_000)  # idle, which is no pace
    await beat(queue)
    for number in range(2, 6):
        await queue.admit(job(number))
        await queue.dispatch()
    await end(2)
    await queue.admit(job(6))
    assert await retry_after() == 1  # one end is none either
    await end(3)
    await queue.admit(job(7))
    assert await retry_after() == 5  # (3 waiting + 1) x a little more than 1 s

    await pass_time(connections, -3_600_000)
    await end(4)
    await queue.admit(job(8))
    assert await retry_after() == 4


async def test_bytes_bound_the_queue_too(connections: Connections) -> None:
    size = len(encode(job(1)))
    queue = PoolQueue(connections, POOL, QueueSettings(max_waiting_bytes=2 * size))
    await beat(queue)
    for number in (1, 2):
        assert await queue.admit(job(number)) is None
    problem = await queue.admit(job(3))
    assert problem is not None
    assert problem.code == ErrorCode.QUEUE_FULL
    assert (await queue.depth()).waiting_bytes == 2 * size
    await queue.cancel(job(1).id)
    assert (await queue.depth()).waiting_bytes == size
    assert await queue.admit(job(3)) is None


async def test_a_pool_without_worker_refuses_but_waits_for_one_just_lost(
    queue: PoolQueue, connections: Connections
) -> None:
    problem = await queue.admit(job(1))
    assert problem is not None
    assert (problem.code, problem.status) == (ErrorCode.NO_WORKER, 503)
    await beat(queue)
    await queue.worker_leave("w")
    assert await queue.admit(job(1)) is None
    await connections.commands.delete(f"dllm:{{{POOL}}}:last_worker")
    assert await queue.admit(job(2)) is not None


async def test_admitting_again_changes_nothing(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.admit(job(1))
    assert await queue.admit(job(1)) is None
    assert len(await queue.dispatch()) == 1
    assert await queue.admit(job(1)) is None
    assert (await queue.depth()).waiting == 0


async def test_a_cancelled_waiting_job_leaves_at_once(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.cancel(job(1).id)
    assert await queue.dispatch() == []
    assert await keys_of_jobs(connections) == []


async def test_a_cancelled_running_job_keeps_its_slot_until_its_worker_has_stopped_it(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.admit(job(2))
    await queue.dispatch()
    await queue.cancel(job(1).id)
    await queue.cancel(job(1).id)
    assert await claims(queue) == [Claim(job(1), 1), Cancel(job(1).id)]
    assert not await queue.commit("w", job(1).id, 1, 0, BLOCK)
    assert await queue.dispatch() == []
    assert await queue.finish("w", job(1).id, 1, 0, End(outcome=Outcome.CANCELLED))
    assert [d.job_id for d in await queue.dispatch()] == [job(2).id]
    assert await replies(queue) == []


async def test_a_job_cancelled_by_mistake_runs_again_but_not_for_ever(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.admit(job(1))
    for attempt in (1, 2):
        assert await replies(queue) == []
        assert [d.attempt for d in await queue.dispatch()] == [attempt]
        assert await queue.finish("w", job(1).id, attempt, 0, End(outcome=Outcome.CANCELLED))
        assert not await queue.finish("w", job(1).id, attempt, 0, End(outcome=Outcome.CANCELLED))
    [reply] = await replies(queue)
    assert reply.end is not None
    assert reply.end.outcome == Outcome.FAILED


async def test_jobs_of_a_dead_worker_are_first_again_and_the_dead_is_fenced_off(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    for number in range(3):
        await queue.admit(job(number))
    await queue.dispatch()
    await kill(connections, "workers", "w")
    assert (await queue.reclaim()).fates == {"w": ["requeued"]}
    await beat(queue, "other")
    [dispatched] = await queue.dispatch()
    assert (dispatched.job_id, dispatched.worker, dispatched.attempt) == (job(0).id, "other", 2)

    assert not await queue.commit("w", job(0).id, 1, 0, BLOCK)
    assert not await queue.finish("w", job(0).id, 1, 0, DONE)
    assert await beat(queue, "w", held=[job(0).id]) == [job(0).id]
    assert await replies(queue) == []


@pytest.mark.parametrize("stream", [True, False])
async def test_only_a_stream_that_was_seen_fails_with_its_worker(
    queue: PoolQueue, connections: Connections, stream: bool
) -> None:
    await beat(queue)
    await queue.admit(job(1, stream=stream))
    await queue.dispatch()
    await queue.commit("w", job(1).id, 1, 0, BLOCK)
    await kill(connections, "workers", "w")
    assert (await queue.reclaim()).fates == {"w": ["failed" if stream else "requeued"]}
    if stream:
        last = (await replies(queue))[-1]
        assert (last.attempt, last.seq) == (2, 0)
        assert last.end is not None
        assert last.end.problem is not None
        assert last.end.problem.code == ErrorCode.WORKER_LOST
        assert await keys_of_jobs(connections) == []
    else:
        assert (await queue.depth()).waiting == 1


async def test_a_job_that_costs_every_worker_fails(queue: PoolQueue, connections: Connections) -> None:
    await queue_with_worker_lost_twice(queue)
    [reply] = await replies(queue)
    assert reply.end is not None
    assert reply.end.outcome == Outcome.FAILED
    assert await keys_of_jobs(connections) == []


async def queue_with_worker_lost_twice(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.admit(job(1))
    for attempt in (1, 2):
        await queue.dispatch()
        fate = await queue.release("w", job(1).id, attempt, counts=True)
        assert fate == ("requeued" if attempt == 1 else "failed")


async def test_a_job_given_back_unseen_costs_no_try(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.admit(job(1))
    for attempt in range(1, 6):
        await queue.dispatch()
        assert await queue.release("w", job(1).id, attempt, counts=False) == "requeued"
    assert await queue.release("w", job(1).id, 5, counts=False) == "fenced"


async def test_a_worker_that_leaves_gives_its_jobs_back(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.worker_leave("w")
    depth = await queue.depth()
    assert (depth.waiting, depth.running, depth.workers) == (1, 0, 0)


async def test_a_claim_read_but_not_held_is_given_back(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.dispatch()
    last, _ = await queue.commands("w", START)
    await beat(queue)  # not read yet, says acked
    assert (await queue.depth()).running == 1
    await beat(queue, acked=last, held=[job(1).id])
    assert (await queue.depth()).running == 1
    await beat(queue, acked=last)
    assert (await queue.depth()).running == 0
    assert [d.attempt for d in await queue.dispatch()] == [2]


async def test_a_gateway_that_dies_before_its_first_heartbeat_is_noticed(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.admit(job(1))
    assert (await queue.reclaim()).orphans == 0
    for _ in range(3):
        await pass_time(connections, 2_000)
        await beat(queue)
        reclaimed = await queue.reclaim()
    assert reclaimed.orphans == 1


async def test_claims_of_one_millisecond_are_told_apart(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue, slots=2)
    await queue.admit(job(1))
    await queue.admit(job(2))
    await queue.dispatch()
    entries: Any = await connections.commands.xrange(f"dllm:{{{POOL}}}:commands:w")
    first, second = (id.decode() for id, _ in entries)
    assert first.split("-")[0] == second.split("-")[0]
    await beat(queue, slots=2, acked=first, held=[job(1).id])
    assert (await queue.depth()).running == 2
    assert await claims(queue) == [Claim(job(2), 1)]


async def test_jobs_of_a_dead_gateway_are_cancelled(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue)
    await queue.admit(job(1, gateway="dead"))
    await queue.admit(job(2, gateway="dead"))
    await queue.admit(job(3, gateway="alive"))
    await queue.dispatch()
    await queue.commit("w", job(1).id, 1, 0, BLOCK)
    await kill(connections, "gateways", "dead")
    assert (await queue.reclaim()).orphans == 2
    assert (await claims(queue))[-1] == Cancel(job(1).id)
    assert not await queue.commit("w", job(1).id, 1, 1, BLOCK)
    await queue.finish("w", job(1).id, 1, 1, End(outcome=Outcome.CANCELLED))
    assert [d.job_id for d in await queue.dispatch()] == [job(3).id]
    assert await connections.commands.keys("*dead*") == []
    assert (await queue.reclaim()).orphans == 0
    assert await connections.commands.zrange(f"dllm:{{{POOL}}}:gateways", 0, -1) == [b"alive"]


async def test_a_cancelled_job_of_a_dead_worker_is_forgotten(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.cancel(job(1).id)
    await kill(connections, "workers", "w")
    assert (await queue.reclaim()).fates == {"w": ["cancelled"]}
    assert await keys_of_jobs(connections) == []


async def test_silence_that_nobody_could_hear_is_no_death(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue, slots=2)
    for number in (1, 2):
        await queue.admit(job(number))
    await queue.dispatch()
    await queue.reclaim()
    for outage_ms in (60_000, -3_600_000):
        await pass_time(connections, outage_ms)
        assert await queue.reclaim() == Reclaimed({}, 0)
        assert (await queue.depth()).running == 2
    await pass_time(connections, 2_000)  # of the 5 s that each has now, and both are heard again in time
    await beat(queue, slots=2, held=[job(1).id, job(2).id])
    await queue.gateway_heartbeat("g", START)
    assert await queue.reclaim() == Reclaimed({}, 0)
    for _ in range(2):
        await pass_time(connections, 2_000)
        assert await queue.reclaim() == Reclaimed({}, 0)
    await pass_time(connections, 2_000)
    reclaimed = await queue.reclaim()
    assert reclaimed.fates == {"w": ["requeued", "requeued"]}
    assert reclaimed.orphans == 2


async def test_a_run_that_redis_forgot_cannot_end_the_next(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.admit(job(1))
    # The worker runs it as attempt 1, but Redis has lost the second in which it was dispatched.
    assert await beat(queue, held=[job(1).id]) == [job(1).id]
    [dispatched] = await queue.dispatch()
    assert (dispatched.worker, dispatched.attempt) == ("w", 2)
    assert not await queue.finish("w", job(1).id, 1, 0, End(outcome=Outcome.CANCELLED))
    assert await queue.finish("w", job(1).id, 2, 0, DONE)


async def test_lost_names_what_redis_forgot_but_not_what_has_just_ended(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.dispatch()
    assert await queue.lost("g", START, [job(1).id, job(2).id]) == [job(2).id]
    await queue.finish("w", job(1).id, 1, 0, DONE)
    assert await queue.lost("g", START, [job(1).id]) == []  # its end is there to be read
    last, _ = await queue.replies("g", START)
    assert await queue.lost("g", last, [job(1).id]) == [job(1).id]

    await connections.commands.flushall()
    await beat(queue)
    assert await queue.lost("g", last, [job(1).id]) == [job(1).id]
    await queue.admit(job(1), attempts=1)
    assert [d.attempt for d in await queue.dispatch()] == [2]


async def test_what_was_read_is_trimmed(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.commit("w", job(1).id, 1, 0, BLOCK)
    command, _ = await queue.commands("w", START)
    reply, _ = await queue.replies("g", START)
    await queue.commit("w", job(1).id, 1, 1, BLOCK)
    await beat(queue, acked=command, held=[job(1).id])
    await queue.gateway_heartbeat("g", reply)
    assert await claims(queue) == []
    assert [r.seq for r in await replies(queue)] == [1]


async def woken(queue: PoolQueue, cause: Awaitable[object]) -> bool:
    """Does a router asleep wake for this?"""
    # It blocks for BLOCK_S when nothing wakes it, so a full wait means it slept through the cause.
    sleeper = asyncio.create_task(queue.wait())
    await cause
    done, _ = await asyncio.wait({sleeper}, timeout=0.8)
    await sleeper
    return bool(done)


async def test_a_router_asleep_wakes_for_each_cause(queue: PoolQueue) -> None:
    await beat(queue, slots=0)
    assert await woken(queue, queue.admit(job(1)))
    assert await woken(queue, beat(queue, slots=1))
    await queue.dispatch()
    await queue.admit(job(2))
    await queue.wait()
    assert await woken(queue, queue.finish("w", job(1).id, 1, 0, DONE))
    await queue.dispatch()
    assert await woken(queue, queue.release("w", job(2).id, 1, counts=True))
    await queue.dispatch()
    await queue.admit(job(3))
    await queue.wait()
    await queue.cancel(job(2).id)
    assert await woken(queue, queue.finish("w", job(2).id, 2, 0, End(outcome=Outcome.CANCELLED)))


async def test_a_router_sleeps_while_nothing_waits(queue: PoolQueue) -> None:
    await beat(queue, slots=1)
    await queue.admit(job(1))
    await queue.admit(job(2))  # two causes, one awakening
    await queue.wait()
    assert not await woken(queue, asyncio.sleep(0))
    await queue.dispatch()
    await queue.cancel(job(2).id)
    assert not await woken(queue, beat(queue, held=[job(1).id]))


async def test_a_pool_that_everybody_left_is_forgotten(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue)
    for number in (1, 2):
        await queue.admit(job(number))
    await queue.dispatch()
    await queue.reclaim()
    await queue.finish("w", job(1).id, 1, 0, DONE)
    await queue.worker_leave("w")
    await queue.gateway_leave("g")
    left: list[Any] = await connections.commands.keys("*")
    assert left
    assert all([await connections.commands.pttl(key) > 0 for key in left])


async def test_depth_counts_what_is_there(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue, slots=2)
    for number in range(3):
        await queue.admit(job(number))
    await queue.dispatch()
    await pass_time(connections, 3_000)
    depth = await queue.depth()
    assert (depth.waiting, depth.running, depth.slots, depth.workers) == (1, 2, 2, 1)
    assert depth.waiting_bytes == len(encode(job(2)))
    assert 3 <= depth.oldest_s < 10
    await queue.finish("w", job(0).id, 1, 0, DONE)
    [dispatched] = await queue.dispatch()
    assert 3 <= dispatched.waited_s < 10


async def test_what_another_version_wrote_ends_its_job_and_no_other(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue, slots=2)
    await queue.admit(job(1))
    await queue.admit(job(2))
    await connections.commands.hset(f"dllm:{{{POOL}}}:job:{job(1).id}", "body", b"unreadable")
    for readable in ([Claim(job(2), 1)], []):  # max_attempts is 2, and what was read is trimmed
        await queue.dispatch()
        last, commands = await queue.commands("w", START)
        assert commands == readable
        await beat(queue, slots=2, acked=last, held=[job(2).id])
    [reply] = await replies(queue)
    assert reply.job_id == job(1).id
    assert reply.end is not None
    assert reply.end.outcome == Outcome.FAILED

    entry: Any = {"job": job(2).id, "worker": "w", "attempt": 1, "seq": 0, "body": b"unreadable"}
    await connections.commands.xadd(f"dllm:{{{POOL}}}:replies:g", entry)
    reply = (await replies(queue))[-1]
    assert (reply.job_id, reply.attempt, reply.seq) == (job(2).id, 1, 0)
    assert reply.end is not None
    assert reply.end.problem is not None
    assert reply.end.problem.code == ErrorCode.INTERNAL_ERROR
