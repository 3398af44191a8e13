"""Workers, gateways and a Redis that die: nothing is lost, nothing runs twice, nothing runs for ever."""

from __future__ import annotations

from typing import Any

import pytest

from dllm_stack.messages import Cancel, Tier
from dllm_stack.outcomes import ErrorCode, Outcome
from dllm_stack.queue import START, PoolQueue, Reclaimed, script
from dllm_stack.redis import Connections, RedisError
from tests.queue.kit import (
    AFTER_BLOCK,
    BEGINNING,
    BLOCK,
    CANCELLED,
    DONE,
    FAILED,
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
    kill,
    numbers,
    pass_time,
    patient,
    replies,
    run_one,
)


@pytest.fixture
def queue(connections: Connections) -> PoolQueue:
    return WatchedQueue(connections, POOL, patient(max_attempts=2, breaker_s=100))


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
    dispatched = await dispatch_one(queue)
    assert (dispatched.job_id, dispatched.worker, dispatched.attempt) == (id_of(0), "other", 2)

    assert not (await queue.commit("w", id_of(0), 1, BEGINNING, BLOCK)).wanted
    assert not await queue.finish("w", id_of(0), 1, BEGINNING, DONE)
    assert await queue.release("w", id_of(0), 1, counts=True) == "fenced"
    assert await beat(queue, "w", held=[id_of(0)]) == [id_of(0)]
    assert await replies(queue) == []


async def test_a_dead_worker_gets_no_job_before_it_is_reclaimed(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await kill(connections, "workers", "w")
    await queue.admit(job(1))
    assert await queue.dispatch() == []


async def test_a_job_that_costs_every_worker_fails_and_is_kept(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.admit(job(1))
    for attempt in (1, 2):
        await queue.dispatch()
        fate = await queue.release("w", id_of(1), attempt, counts=True)
        assert fate == ("requeued" if attempt == 1 else "failed")
    assert await ends(queue) == [(1, Outcome.FAILED, ErrorCode.WORKER_LOST)]
    assert await keys_of_jobs(connections) == []
    [letter] = await queue.dead()
    assert (letter.kept, letter.reason, letter.attempts) == (True, "a worker gave it back", 2)
    assert await queue.dead_job(id_of(1)) == job(1)
    assert (await queue.depth()).dead_letters == 1
    assert await connections.commands.pttl(PREFIX + "dead") > 0
    assert await queue.forget_dead(id_of(1))
    assert not await queue.forget_dead(id_of(1))
    assert await queue.dead() == []


async def test_dead_letters_are_bounded(connections: Connections) -> None:
    for kept in (2, 0):
        await connections.commands.flushall()
        queue = WatchedQueue(connections, POOL, patient(max_attempts=1, dead_letters=kept))
        await beat(queue)
        for number in range(3):
            await queue.admit(job(number))
            await queue.dispatch()
            assert await queue.release("w", id_of(number), 1, counts=True) == "failed"
            await beat(queue)
            await connections.commands.delete(PREFIX + "set_aside", PREFIX + "worker:w")
            await beat(queue)
        assert [letter.job_id for letter in await queue.dead()] == [id_of(n) for n in range(3 - kept, 3)]


async def test_a_job_given_back_unseen_costs_no_try(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.admit(job(1))
    for attempt in range(1, 6):
        await queue.dispatch()
        assert await queue.release("w", id_of(1), attempt, counts=False) == "requeued"
    assert await queue.release("w", id_of(1), 5, counts=False) == "fenced"


async def test_a_worker_that_leaves_gives_its_jobs_back(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.worker_leave("w")
    depth = await queue.depth()
    assert (depth.waiting, depth.running, depth.workers) == (1, 0, 0)


async def test_a_drained_worker_gets_no_more_jobs_until_it_leaves(queue: PoolQueue) -> None:
    await beat(queue, slots=2)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.drain_worker("w")
    await queue.drain_worker("unknown")
    await queue.admit(job(2))
    assert await queue.dispatch() == []
    await beat(queue, slots=2, held=[id_of(1)])
    assert await queue.dispatch() == []
    assert [status.draining for status in await queue.workers()] == [True]
    assert await queue.finish("w", id_of(1), 1, BEGINNING, DONE)
    assert await queue.dispatch() == []
    await queue.worker_leave("w")
    await beat(queue)
    assert numbers(await queue.dispatch()) == [2]


async def test_jobs_of_a_dead_gateway_are_cancelled(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue)
    await queue.admit(job(1, gateway="dead"))
    await queue.admit(job(2, gateway="dead"))
    await queue.admit(job(3, gateway="alive"))
    await queue.dispatch()
    await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK)
    await kill(connections, "gateways", "dead")
    assert (await queue.reclaim()).orphans == 2
    assert (await commands(queue))[-1] == Cancel(id_of(1), 1)
    assert not (await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK)).wanted
    await queue.finish("w", id_of(1), 1, BEGINNING, CANCELLED)
    assert numbers(await queue.dispatch()) == [3]
    assert await connections.commands.keys("*dead") == []
    assert (await queue.reclaim()).orphans == 0
    assert await connections.commands.zrange(PREFIX + "gateways", 0, -1) == [b"alive"]


async def test_a_gateway_that_dies_before_its_first_heartbeat_is_noticed(
    connections: Connections,
) -> None:
    queue = PoolQueue(connections, POOL, patient(heartbeat_ttl_s=500))
    await beat(queue)
    await queue.admit(job(1))
    assert (await queue.reclaim()).orphans == 0
    for _ in range(3):
        await pass_time(connections, 200)
        await beat(queue)
        reclaimed = await queue.reclaim()
    assert reclaimed.orphans == 1


async def test_a_cancelled_job_of_a_dead_worker_is_forgotten(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.cancel(id_of(1))
    await kill(connections, "workers", "w")
    assert (await queue.reclaim()).fates == {"w": ["cancelled"]}
    assert await keys_of_jobs(connections) == []


async def test_silence_that_nobody_could_hear_is_no_death(connections: Connections) -> None:
    queue = PoolQueue(connections, POOL, patient(heartbeat_ttl_s=500))
    await beat(queue, slots=2)
    for number in (1, 2):
        await queue.admit(job(number))
    assert (await queue.reclaim()).at_once == {Tier.DEFAULT: 2}
    for outage_s in (6000, -360_000):
        await pass_time(connections, outage_s)
        assert await queue.reclaim() == Reclaimed()
        assert (await queue.depth()).running == 2
    await pass_time(connections, 200)  # of the 500 s that each has now, and both are heard again in time
    await beat(queue, slots=2, held=[id_of(1), id_of(2)])
    await queue.gateway_heartbeat("g", START)
    assert await queue.reclaim() == Reclaimed()
    for _ in range(2):
        await pass_time(connections, 200)
        assert await queue.reclaim() == Reclaimed()
    await pass_time(connections, 200)
    reclaimed = await queue.reclaim()
    assert reclaimed.fates == {"w": ["requeued", "requeued"]}
    assert reclaimed.orphans == 2


async def test_a_run_that_redis_forgot_cannot_end_the_next(queue: PoolQueue) -> None:
    async with held(queue):
        await beat(queue)
        await queue.admit(job(1))
        # The worker runs it as attempt 1, but Redis has lost the second in which it was dispatched.
        assert await beat(queue, held=[id_of(1)]) == [id_of(1)]
    dispatched = await dispatch_one(queue)
    assert (dispatched.worker, dispatched.attempt) == ("w", 2)
    assert not await queue.finish("w", id_of(1), 1, BEGINNING, CANCELLED)
    assert await queue.finish("w", id_of(1), 2, BEGINNING, DONE)


async def test_lost_names_what_redis_forgot_but_not_what_has_just_ended(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.dispatch()
    assert await queue.lost("g", START, [id_of(1), id_of(2)]) == [id_of(2)]
    await queue.finish("w", id_of(1), 1, BEGINNING, DONE)
    assert await queue.lost("g", START, [id_of(1)]) == []  # its end is there to be read
    last, _ = await queue.replies("g", START)
    assert await queue.lost("g", last, [id_of(1)]) == [id_of(1)]

    await connections.commands.flushall()
    await beat(queue)
    assert await queue.lost("g", last, [id_of(1)]) == [id_of(1)]
    await queue.admit(job(1), attempts=1)
    assert [d.attempt for d in await queue.dispatch()] == [2]


async def fail(queue: PoolQueue, number: int, *, attempt: int = 1) -> None:
    """The worker fails on this job, which ends."""
    await queue.admit(job(number))
    assert numbers(await queue.dispatch()) == [number]
    assert await queue.finish("w", id_of(number), attempt, BEGINNING, FAILED)


async def test_a_worker_that_fails_often_is_set_aside_and_then_tried(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue, slots=4)
    for number in range(3):
        await fail(queue, number)
    await queue.admit(job(10))
    await queue.admit(job(11))
    assert await queue.dispatch() == []
    assert (await queue.depth()).set_aside == 1
    [status] = await queue.workers()
    assert status.failures == 3
    assert status.set_aside_until is not None

    async def wait(seconds: float) -> None:
        await pass_time(connections, seconds)
        await beat(queue, slots=4)

    await wait(90)
    assert await queue.dispatch() == []
    await wait(20)
    assert numbers(await queue.dispatch()) == [10]  # one at a time
    assert await queue.dispatch() == []
    assert await queue.release("w", id_of(10), 1, counts=True) == "requeued"
    assert await queue.dispatch() == []
    await wait(190)  # twice as long
    assert await queue.dispatch() == []
    await wait(20)
    assert numbers(await queue.dispatch()) == [10]
    assert await queue.finish("w", id_of(10), 2, BEGINNING, DONE)
    assert (await queue.depth()).set_aside == 0
    await queue.admit(job(12))
    assert numbers(await queue.dispatch()) == [11, 12]


async def test_jobs_begun_before_do_not_set_a_worker_aside_for_longer(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue, slots=6)
    for number in range(6):
        await queue.admit(job(number))
    await queue.dispatch()
    for number in range(6):
        await queue.finish("w", id_of(number), 1, BEGINNING, FAILED)
    await pass_time(connections, 110)
    await beat(queue, slots=6)
    await queue.admit(job(10))
    assert numbers(await queue.dispatch()) == [10]


async def test_a_worker_that_succeeds_in_between_stays(queue: PoolQueue) -> None:
    await beat(queue)
    for number in range(0, 8, 2):
        await fail(queue, number)
        await queue.admit(job(number + 1))
        assert await run_one(queue) == number + 1
    assert (await queue.depth()).set_aside == 0
    for number in (10, 11):
        await queue.admit(job(number))
        await queue.dispatch()
        await queue.release("w", id_of(number), 1, counts=False)  # which says nothing about the worker
        await queue.cancel(id_of(number))
    assert [status.failures for status in await queue.workers()] == [0]


async def test_a_dead_worker_with_many_jobs_takes_several_calls(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "AT_ONCE", 2)
    queue = WatchedQueue(connections, POOL, patient())
    await beat(queue, slots=3)
    for number in range(3):
        await queue.admit(job(number))
    await queue.dispatch()
    await queue.reclaim()
    await kill(connections, "workers", "w")
    first, second = await queue.reclaim(), await queue.reclaim()
    assert (first.fates, first.more) == ({"w": ["requeued", "requeued"]}, True)
    assert await connections.commands.exists(PREFIX + "worker:w") == 0
    assert (second.fates, second.more) == ({"w": ["requeued"]}, False)
    assert (await queue.depth()).waiting == 3


async def test_a_drained_worker_stays_drained_when_it_misses_a_heartbeat(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.drain_worker("w")
    await queue.reclaim()
    await kill(connections, "workers", "w")
    await queue.reclaim()
    await beat(queue)
    await queue.admit(job(1))
    assert await queue.dispatch() == []
    assert 0 < await connections.commands.pttl(PREFIX + "drained:w") <= 86_400_000


async def test_a_drained_worker_stays_drained_for_longer_than_a_day(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.drain_worker("w")
    await connections.commands.pexpire(PREFIX + "drained:w", 60_000)
    await beat(queue)
    assert await connections.commands.pttl(PREFIX + "drained:w") > 60_000
    await queue.worker_leave("w")
    await beat(queue)
    assert not await connections.commands.exists(PREFIX + "drained:w")


async def test_a_redis_without_memory_takes_no_new_job_and_goes_on_with_the_others(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue, "a", slots=2)
    await beat(queue, "b", slots=1)
    for number in range(1, 8):
        await queue.admit(job(number, gateway="dead" if number > 5 else "g"))
    assert numbers(await queue.dispatch()) == [1, 2, 3]
    workers = {status.id: status.worker for status in await queue.running(9)}
    await queue.reclaim()
    await kill(connections, "gateways", "dead")
    await connections.commands.config_set("maxmemory", 1)
    try:
        with pytest.raises(RedisError, match="maxmemory"):
            await queue.admit(job(8))
        # What runs goes on, ends, is called off, or given back; so does what waits.
        first, second, third = (str(workers[id_of(number)]) for number in (1, 2, 3))
        assert (await queue.commit(first, id_of(1), 1, BEGINNING, BLOCK)).wanted
        assert await queue.finish(first, id_of(1), 1, AFTER_BLOCK, DONE)
        await queue.cancel(id_of(2))
        assert await queue.release(second, id_of(2), 1, counts=True) == "cancelled"
        assert await queue.release(third, id_of(3), 1, counts=False) == "requeued"
        await queue.cancel(id_of(4))
        assert await queue.revoke(id_of(5))
        await queue.gateway_heartbeat("g", START)
        assert (await queue.reclaim()).orphans == 2
        await beat(queue, "a", slots=2)
        assert await run_one(queue) == 3
    finally:
        await connections.commands.config_set("maxmemory", 0)
    assert await keys_of_jobs(connections) == []


async def test_a_dead_letter_of_a_day_ago_is_dropped(queue: PoolQueue, connections: Connections) -> None:
    ms = round(await queue.now() * 1000)
    for number, hours in ((1, 25), (2, 23)):
        letter: Any = {"id": id_of(number), "tenant": "a", "reason": "r", "attempts": 1}
        await connections.commands.xadd(PREFIX + "dead", letter, id=f"{ms - hours * 3_600_000}-0")
    await queue.reclaim()
    assert [letter.job_id for letter in await queue.dead()] == [id_of(2)]


async def test_a_large_request_is_not_kept_when_it_dies(connections: Connections) -> None:
    queue = WatchedQueue(connections, POOL, patient(max_attempts=1))
    await beat(queue)
    await queue.admit(job(1, text="x" * 70_000, tenant="a"))
    await queue.dispatch()
    await queue.release("w", id_of(1), 1, counts=True)
    [letter] = await queue.dead()
    assert (letter.job_id, letter.tenant, letter.kept) == (id_of(1), "a", False)
    assert await queue.dead_job(id_of(1)) is None
