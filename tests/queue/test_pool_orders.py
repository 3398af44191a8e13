"""A pool and its workers told to pause, to drain, to go on: what each order does, and how long it lasts."""

from __future__ import annotations

import pytest

from dllm_stack.messages import Committed, Tier
from dllm_stack.outcomes import ErrorCode, Outcome
from dllm_stack.queue import PoolQueue
from dllm_stack.redis import Connections
from tests.queue.kit import (
    AFTER_BLOCK,
    BEGINNING,
    BLOCK,
    DONE,
    POOL,
    PREFIX,
    WatchedQueue,
    beat,
    dispatch_one,
    ends,
    id_of,
    job,
    kill,
    numbers,
    pass_time,
    patient,
    woken,
)

COMPLETED = Outcome.COMPLETED, None
MONTH_MS, DAY_MS = 30 * 86_400_000, 86_400_000


@pytest.fixture
def queue(connections: Connections) -> PoolQueue:
    return WatchedQueue(connections, POOL, patient(max_waiting_jobs=3))


@pytest.fixture
def other(connections: Connections) -> PoolQueue:
    """As another process sees the same pool."""
    return WatchedQueue(connections, POOL, patient())


async def refusal(queue: PoolQueue, number: int) -> ErrorCode | None:
    problem = await queue.admit(job(number))
    return None if problem is None else problem.code


async def state(queue: PoolQueue) -> tuple[bool, bool]:
    depth = await queue.depth()
    return depth.paused, depth.draining


async def test_a_paused_pool_takes_jobs_and_starts_none(queue: PoolQueue, other: PoolQueue) -> None:
    await beat(queue, slots=2)
    await queue.admit(job(1))
    await queue.dispatch()
    await other.pause()
    await other.pause()
    await queue.admit(job(2))
    assert await refusal(queue, 3) is None
    assert await queue.dispatch() == []
    assert await state(queue) == (True, False)
    assert (await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK)).wanted
    assert await queue.finish("w", id_of(1), 1, AFTER_BLOCK, DONE)
    assert await ends(queue) == [(1, *COMPLETED)]
    assert await other.dispatch() == []
    await queue.resume()
    await queue.resume()
    assert await state(other) == (False, False)
    assert numbers(await other.dispatch()) == [2, 3]


async def test_a_job_that_comes_back_to_a_paused_pool_waits(queue: PoolQueue) -> None:
    await beat(queue, slots=1)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.pause()
    assert await queue.release("w", id_of(1), 1, counts=False) == "requeued"
    assert await queue.dispatch() == []
    await queue.resume()
    assert (await dispatch_one(queue)).attempt == 2


async def test_time_goes_on_in_a_paused_pool(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue, slots=1)
    await queue.admit(job(1, timeout_s=60))
    await queue.pause()
    await pass_time(connections, 61)
    await queue.reclaim()
    assert await ends(queue) == [(1, Outcome.EXPIRED, ErrorCode.DEADLINE_EXCEEDED)]


async def test_a_draining_pool_serves_what_it_has_and_takes_nothing_new(
    queue: PoolQueue, other: PoolQueue
) -> None:
    await beat(queue, slots=1)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.admit(job(2))
    await other.drain()
    await other.drain()
    assert await state(queue) == (False, True)
    problem = await queue.admit(job(3))
    assert problem is not None
    assert (problem.code, problem.status, problem.retry_after_s) == (ErrorCode.POOL_DRAINING, 503, 30)
    assert (problem.param, problem.outcome) == ("model", Outcome.REJECTED)
    assert problem.message == "'tiny' takes no new requests at present."
    assert await queue.admit(job(2)) is None  # sent twice
    assert await queue.release("w", id_of(1), 1, counts=True) == "requeued"
    for number in (1, 2):
        dispatched = await dispatch_one(queue)
        await queue.finish("w", id_of(number), dispatched.attempt, BEGINNING, DONE)
    assert await ends(queue) == [(1, *COMPLETED), (2, *COMPLETED)]
    assert await refusal(other, 3) is ErrorCode.POOL_DRAINING
    await queue.resume()
    assert await refusal(other, 3) is None


async def test_a_draining_pool_takes_back_what_redis_has_lost(queue: PoolQueue) -> None:
    await beat(queue, slots=1)
    await queue.drain()
    committed = Committed(token_ids=[1, 2, 3], characters=5)
    assert await queue.admit(job(1), attempts=3, committed=committed) is None
    assert (await dispatch_one(queue)).committed == 3


async def test_a_draining_pool_drops_no_job_for_one_that_it_refuses(queue: PoolQueue) -> None:
    await beat(queue, slots=0)
    for number in (1, 2, 3):
        await queue.admit(job(number, tier=Tier.FLEX))
    await queue.drain()
    assert await refusal(queue, 4) is ErrorCode.POOL_DRAINING
    assert (await queue.depth()).waiting == 3


async def test_a_draining_pool_without_a_worker_says_that_it_drains(queue: PoolQueue) -> None:
    await queue.drain()
    assert await refusal(queue, 1) is ErrorCode.POOL_DRAINING


async def test_one_order_after_another(queue: PoolQueue) -> None:
    await beat(queue, slots=0)
    await queue.admit(job(1))
    await queue.drain()
    await queue.pause()
    assert await state(queue) == (True, True)
    assert await queue.dispatch() == []
    assert await refusal(queue, 2) is ErrorCode.POOL_DRAINING
    await queue.drain()
    assert await state(queue) == (False, True)
    await beat(queue, slots=1)
    assert numbers(await queue.dispatch()) == [1]
    await queue.pause()
    await queue.resume()
    assert await state(queue) == (False, False)
    assert await refusal(queue, 2) is None


@pytest.mark.parametrize("order", ["resume", "drain"])
async def test_a_router_asleep_wakes_when_a_pool_is_no_longer_paused(queue: PoolQueue, order: str) -> None:
    await beat(queue, slots=1)
    await queue.pause()
    await queue.admit(job(1))
    await queue.wait()
    assert await woken(queue, getattr(queue, order)())


async def test_a_pause_does_not_slow_the_pace_that_retry_after_is_told_from(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue, slots=1)
    for number in (1, 2, 3):
        await queue.admit(job(number))
    await queue.dispatch()
    await queue.finish("w", id_of(1), 1, BEGINNING, DONE)
    await queue.pause()
    await pass_time(connections, 1000)
    await beat(queue, slots=1)
    await queue.resume()
    await queue.dispatch()
    await queue.finish("w", id_of(2), 1, BEGINNING, DONE)
    assert await connections.commands.hget(PREFIX + "drain", "interval") is None
    await queue.resume()  # of a pool that is not paused: its pace is measured on
    assert await connections.commands.hget(PREFIX + "drain", "at") is not None


@pytest.mark.parametrize(("order", "key"), [("pause", "paused"), ("drain", "draining")])
async def test_an_order_lasts_a_month_without_a_router(
    queue: PoolQueue, connections: Connections, order: str, key: str
) -> None:
    await getattr(queue, order)()
    assert DAY_MS < await connections.commands.pttl(PREFIX + key) <= MONTH_MS
    await queue.reclaim()
    await connections.commands.pexpire(PREFIX + key, 60_000)
    await queue.reclaim()
    assert await connections.commands.pttl(PREFIX + key) > DAY_MS


async def test_a_redis_that_lost_its_data_has_lost_the_orders(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.pause()
    await queue.drain()
    await queue.pause_worker("w")
    await connections.commands.flushall()
    await beat(queue)
    assert await state(queue) == (False, False)
    assert await refusal(queue, 1) is None
    assert numbers(await queue.dispatch()) == [1]


async def test_a_paused_worker_gets_no_more_jobs_until_it_is_resumed(
    queue: PoolQueue, other: PoolQueue
) -> None:
    await beat(queue, slots=2)
    await queue.admit(job(1))
    await queue.dispatch()
    await other.pause_worker("w")
    await other.pause_worker("w")
    await other.pause_worker("unknown")
    await queue.admit(job(2))
    assert await queue.dispatch() == []
    await beat(queue, slots=2, held=[id_of(1)])
    assert await queue.dispatch() == []
    [status] = await queue.workers()
    assert (status.paused, status.draining, status.running) == (True, False, 1)
    assert await queue.finish("w", id_of(1), 1, BEGINNING, DONE)
    assert await queue.dispatch() == []
    assert await other.resume_worker("w")
    assert await other.resume_worker("w")
    assert [status.paused for status in await queue.workers()] == [False]
    assert numbers(await queue.dispatch()) == [2]


async def test_jobs_go_to_the_workers_that_are_not_paused(queue: PoolQueue) -> None:
    await beat(queue, "a", slots=1)
    await beat(queue, "b", slots=1)
    await queue.pause_worker("a")
    await queue.admit(job(1))
    await queue.admit(job(2))
    assert [dispatched.worker for dispatched in await queue.dispatch()] == ["b"]


async def test_a_router_asleep_wakes_when_a_worker_is_resumed(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.pause_worker("w")
    await queue.admit(job(1))
    assert await woken(queue, queue.resume_worker("w"))


async def test_a_paused_worker_stays_so_when_it_misses_a_heartbeat_and_not_when_it_leaves(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.pause_worker("w")
    assert 0 < await connections.commands.pttl(PREFIX + "paused:w") <= DAY_MS
    await queue.reclaim()
    await kill(connections, "workers", "w")
    await queue.reclaim()
    await connections.commands.pexpire(PREFIX + "paused:w", 60_000)
    await beat(queue)
    assert await connections.commands.pttl(PREFIX + "paused:w") > 60_000
    await queue.admit(job(1))
    assert await queue.dispatch() == []
    await queue.worker_leave("w")
    await beat(queue)
    assert numbers(await queue.dispatch()) == [1]


async def test_what_drains_a_worker_is_not_taken_back(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.pause_worker("w")
    await queue.drain_worker("w")
    assert not await queue.resume_worker("w")
    [status] = await queue.workers()
    assert (status.paused, status.draining) == (False, True)
    await queue.admit(job(1))
    assert await queue.dispatch() == []
