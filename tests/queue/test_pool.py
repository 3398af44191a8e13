"""The life of a job in the queue, on a real Redis of each kind."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from msgspec.structs import replace

from dllm_stack.messages import Cancel, Claim, Reply, Trace, encode
from dllm_stack.outcomes import ErrorCode, Outcome
from dllm_stack.queue import START, PoolQueue
from dllm_stack.queue.script import DISPATCH_AT_MOST
from dllm_stack.redis import Connections
from tests.queue.kit import (
    AFTER_BLOCK,
    BEGINNING,
    BLOCK,
    CANCELLED,
    DONE,
    POOL,
    PREFIX,
    WatchedQueue,
    beat,
    commands,
    dispatch_one,
    ends,
    held,
    id_of,
    job,
    keys_of_jobs,
    numbers,
    pass_time,
    patient,
    replies,
    sleeps_on,
    woken,
)


@pytest.fixture
def queue(connections: Connections) -> PoolQueue:
    return WatchedQueue(connections, POOL, patient(max_attempts=2))


async def test_a_job_goes_to_a_free_slot_and_its_replies_to_its_gateway(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    assert await queue.admit(job(1)) is None
    dispatched = await dispatch_one(queue)
    assert (dispatched.job_id, dispatched.worker, dispatched.attempt) == (id_of(1), "w", 1)
    assert await commands(queue) == [Claim(job(1), 1)]

    assert await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK) == (True, 3)
    assert await queue.finish("w", id_of(1), 1, AFTER_BLOCK, DONE, BLOCK)
    first, last = await replies(queue)
    assert first.passed is not None
    assert [replace(first, passed=None), last] == [
        Reply(job_id=id_of(1), worker="w", attempt=1, after=BEGINNING, block=BLOCK),
        Reply(job_id=id_of(1), worker="w", attempt=1, after=AFTER_BLOCK, block=BLOCK, end=DONE),
    ]
    assert await keys_of_jobs(connections) == []


async def test_with_what_an_answer_begins_goes_what_it_has_waited_for(queue: PoolQueue) -> None:
    await beat(queue, slots=0)
    began = time.monotonic()
    for number in range(2):
        await queue.admit(job(number))
    await asyncio.sleep(0.02)
    await beat(queue, slots=2)
    waited = [dispatched.waited_s for dispatched in await queue.dispatch()]
    await asyncio.sleep(0.02)
    # One begins with a block, the other is its end besides.
    await queue.commit("w", id_of(0), 1, BEGINNING, BLOCK)
    await queue.finish("w", id_of(1), 1, BEGINNING, DONE, BLOCK)
    past_s = time.monotonic() - began
    told = [reply.passed for reply in await replies(queue)]
    assert [passed and passed.waiting_s for passed in told] == waited
    for passed in told:
        assert passed is not None
        assert passed.waiting_s > 0.01
        assert passed.running_s > 0.01
        assert passed.waiting_s + passed.running_s <= past_s


async def test_a_dispatch_tells_whose_request_it_is_and_its_trace(queue: PoolQueue) -> None:
    trace = Trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=b")
    await beat(queue, slots=2)
    await queue.admit(replace(job(1), trace=trace))
    await queue.admit(replace(job(2), request=id_of(1)))
    first, second = await queue.dispatch()
    assert (first.request_id, first.trace) == (id_of(1), Trace(trace.parent))
    assert (second.request_id, second.trace) == (id_of(1), None)
    claims = [command for command in await commands(queue) if isinstance(command, Claim)]
    assert [(claim.job.request_id, claim.job.trace) for claim in claims] == [
        (id_of(1), trace),
        (id_of(1), None),
    ]


async def test_no_job_leaves_the_queue_before_a_slot_is_free(queue: PoolQueue) -> None:
    await beat(queue, slots=2)
    for number in range(3):
        await queue.admit(job(number))
    assert numbers(await queue.dispatch()) == [0, 1]
    assert await queue.dispatch() == []
    await queue.finish("w", id_of(0), 1, BEGINNING, DONE)
    assert numbers(await queue.dispatch()) == [2]


async def test_more_jobs_than_one_call_dispatches_follow_at_once(queue: PoolQueue) -> None:
    more = range(DISPATCH_AT_MOST + 1)
    await beat(queue, slots=0)
    await asyncio.gather(*(queue.admit(job(number)) for number in more))
    await beat(queue, slots=len(more))
    await queue.wait()
    assert len(await queue.dispatch()) == DISPATCH_AT_MOST
    assert await woken(queue, asyncio.sleep(0))
    assert len(await queue.dispatch()) == 1


async def test_admitting_again_changes_nothing(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.admit(job(1))
    assert await queue.admit(job(1)) is None
    assert len(await queue.dispatch()) == 1
    assert await queue.admit(job(1)) is None
    assert (await queue.depth()).waiting == 0


async def test_a_cancelled_waiting_job_leaves_at_once(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue, slots=0)
    await queue.admit(job(1, timeout_s=60))
    await queue.cancel(id_of(1))
    await beat(queue)
    assert await queue.dispatch() == []
    assert await keys_of_jobs(connections) == []


async def test_a_cancelled_running_job_keeps_its_slot_until_its_worker_has_stopped_it(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.admit(job(2))
    await queue.dispatch()
    await queue.cancel(id_of(1))
    await queue.cancel(id_of(1))
    assert await commands(queue) == [Claim(job(1), 1), Cancel(id_of(1), 1)]
    assert not (await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK)).wanted
    assert await queue.dispatch() == []
    assert await queue.finish("w", id_of(1), 1, BEGINNING, CANCELLED)
    assert numbers(await queue.dispatch()) == [2]
    assert await replies(queue) == []
    await queue.finish("w", id_of(2), 1, BEGINNING, DONE)
    assert await keys_of_jobs(connections) == []


async def test_a_worker_may_say_that_a_cancelled_job_is_done(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.cancel(id_of(1))
    assert await queue.finish("w", id_of(1), 1, BEGINNING, DONE)
    assert await replies(queue) == []
    assert await keys_of_jobs(connections) == []


async def test_a_job_cancelled_by_mistake_runs_again_but_not_for_ever(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.admit(job(1))
    for attempt in (1, 2):
        assert await replies(queue) == []
        assert (await dispatch_one(queue)).attempt == attempt
        assert await queue.finish("w", id_of(1), attempt, BEGINNING, CANCELLED)
        assert not await queue.finish("w", id_of(1), attempt, BEGINNING, CANCELLED)
    assert await ends(queue) == [(1, Outcome.FAILED, ErrorCode.WORKER_LOST)]


async def test_a_claim_read_but_not_held_is_given_back(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.dispatch()
    last, _ = await queue.commands("w", START)
    await beat(queue)  # not read yet, says acked
    assert (await queue.depth()).running == 1
    await beat(queue, acked=last, held=[id_of(1)])
    assert (await queue.depth()).running == 1
    await beat(queue, acked=last)
    assert (await queue.depth()).running == 0
    assert [d.attempt for d in await queue.dispatch()] == [2]


async def test_claims_of_one_millisecond_are_told_apart(queue: PoolQueue, connections: Connections) -> None:
    jobs = range(30)
    async with held(queue):
        await beat(queue, slots=len(jobs))
        for number in jobs:
            await queue.admit(job(number))
    await queue.dispatch()
    entries: Any = await connections.commands.xrange(PREFIX + "commands:w")
    ids = [id.decode() for id, _ in entries]
    # Redis 7 looks at its clock for each.
    of_one = (each for each in jobs[1:] if ids[each - 1].split("-")[0] == ids[each].split("-")[0])
    second = next(of_one)
    await beat(queue, slots=len(jobs), acked=ids[second - 1], held=[id_of(each) for each in jobs[:second]])
    assert (await queue.depth()).running == len(jobs)
    assert await commands(queue) == [Claim(job(each), 1) for each in jobs[second:]]


async def test_what_was_read_is_trimmed(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK)
    command, _ = await queue.commands("w", START)
    reply, _ = await queue.replies("g", START)
    await queue.commit("w", id_of(1), 1, AFTER_BLOCK, BLOCK)
    await beat(queue, acked=command, held=[id_of(1)])
    await queue.gateway_heartbeat("g", reply)
    assert await commands(queue) == []
    assert [r.after for r in await replies(queue)] == [AFTER_BLOCK]


async def test_a_router_asleep_wakes_for_each_cause(queue: PoolQueue) -> None:
    async with held(queue):
        await beat(queue, slots=1)
        assert await woken(queue, queue.admit(job(1)))
    await queue.wait()
    await queue.dispatch()
    await queue.admit(job(2))
    assert await woken(queue, beat(queue, "other", slots=1))
    await queue.dispatch()
    await queue.admit(job(3))
    assert await woken(queue, queue.finish("w", id_of(1), 1, BEGINNING, DONE))
    await queue.dispatch()
    assert await woken(queue, queue.release("other", id_of(2), 1, counts=False))
    await queue.dispatch()
    await queue.admit(job(4))
    await queue.cancel(id_of(3))
    assert await woken(queue, queue.finish("w", id_of(3), 1, BEGINNING, CANCELLED))


async def test_a_router_sleeps_while_there_is_nothing_to_do(queue: PoolQueue) -> None:
    await beat(queue, slots=1)
    await queue.admit(job(1))
    await queue.admit(job(2))  # two causes, one awakening
    await queue.wait()
    assert await sleeps_on(queue)
    await queue.dispatch()
    await queue.admit(job(3))  # no slot is free
    assert await sleeps_on(queue)
    await queue.cancel(id_of(2))
    await queue.cancel(id_of(3))
    await beat(queue, slots=2, held=[id_of(1)])  # nothing waits
    assert await sleeps_on(queue)


async def test_a_pool_that_everybody_left_is_forgotten(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue)
    await queue.drain_worker("w")
    await beat(queue, "v")
    for number in (1, 2):
        await queue.admit(job(number, text="long " * 1000, session="s", timeout_s=60))
    await queue.dispatch()
    await queue.reclaim()
    await queue.release("v", id_of(1), 1, counts=True)
    await queue.dispatch()
    await queue.finish("v", id_of(1), 2, BEGINNING, DONE)
    for worker in ("w", "v"):
        await queue.worker_leave(worker)
    await queue.gateway_leave("g")
    left: list[Any] = await connections.commands.keys("*")
    assert left
    assert [key for key in left if await connections.commands.pttl(key) <= 0] == []


async def test_depth_counts_what_is_there(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue, slots=2)
    for number in range(3):
        await queue.admit(job(number))
    await queue.dispatch()
    await pass_time(connections, 300)
    depth = await queue.depth()
    assert (depth.waiting, depth.running, depth.slots, depth.workers) == (1, 2, 2, 1)
    assert depth.waiting_bytes == len(encode(job(2)))
    assert 300 <= depth.oldest_s < 400
    await queue.finish("w", id_of(0), 1, BEGINNING, DONE)
    dispatched = await dispatch_one(queue)
    assert 300 <= dispatched.waited_s < 400


async def test_what_another_version_wrote_ends_its_job_and_no_other(
    queue: PoolQueue, connections: Connections
) -> None:
    async with held(queue):
        await beat(queue, slots=2)
        await queue.admit(job(1))
        await queue.admit(job(2))
        await connections.commands.set(PREFIX + "body:" + id_of(1), b"unreadable")
    for readable in ([Claim(job(2), 1)], []):  # max_attempts is 2, and what was read is trimmed
        await queue.dispatch()
        last, found = await queue.commands("w", START)
        assert found == readable
        await beat(queue, slots=2, acked=last, held=[id_of(2)])
    assert await ends(queue) == [(1, Outcome.FAILED, ErrorCode.WORKER_LOST)]
    [letter] = await queue.dead()
    assert (letter.job_id, letter.kept, await queue.dead_job(id_of(1))) == (id_of(1), True, None)

    entry: Any = {"job": id_of(2), "worker": "w", "attempt": 1, "tokens": 0, "characters": 0}
    await connections.commands.xadd(PREFIX + "replies:g", entry | {"body": b"unreadable"})
    reply = (await replies(queue))[-1]
    assert (reply.job_id, reply.attempt, reply.after) == (id_of(2), 1, BEGINNING)
    assert (await ends(queue))[-1] == (2, Outcome.FAILED, ErrorCode.INTERNAL_ERROR)
