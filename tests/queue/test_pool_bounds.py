"""How much may wait, who is dropped for whom, and what a pool without workers does."""

from __future__ import annotations

from math import ceil

import pytest

from dllm_stack.messages import Committed, Job, Tier, encode
from dllm_stack.outcomes import ErrorCode, Outcome, Problem
from dllm_stack.queue import PoolQueue
from dllm_stack.queue.script import AT_ONCE
from dllm_stack.redis import Connections
from dllm_stack.settings import Bounds, TenantSettings
from tests.queue.kit import (
    AFTER_BLOCK,
    BEGINNING,
    BLOCK,
    DONE,
    POOL,
    PREFIX,
    WatchedQueue,
    beat,
    ends,
    id_of,
    job,
    keys_of_jobs,
    lose_pool,
    numbers,
    pass_time,
    patient,
    replies,
)

SIZE = len(encode(job(1)))


@pytest.fixture
def queue(connections: Connections) -> PoolQueue:
    return WatchedQueue(connections, POOL, patient(max_waiting_jobs=3))


async def refused(queue: PoolQueue, job: Job) -> Problem:
    problem = await queue.admit(job)
    assert problem is not None
    assert (problem.code, problem.status) == (ErrorCode.QUEUE_FULL, 429)
    assert problem.retry_after_s is not None
    assert 1 <= problem.retry_after_s <= 30
    return problem


async def test_a_full_queue_refuses_with_a_measured_retry_after(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue, slots=0)
    for number in range(3):
        assert await queue.admit(job(number)) is None
    problem = await refused(queue, job(3))
    assert problem.message == "The queue of 'tiny' is full: 3 requests wait already."
    assert problem.retry_after_s == 1
    for interval_ms, retry_after_s in ((2500, 10), (60_000, 30)):  # (3 waiting + 1) x 2.5 s; capped
        await connections.commands.hset(PREFIX + "drain", "interval", str(interval_ms))
        assert (await refused(queue, job(3))).retry_after_s == retry_after_s


async def test_retry_after_is_measured_only_while_somebody_waits(
    queue: PoolQueue, connections: Connections
) -> None:
    async def end(number: int) -> None:
        await beat(queue)
        await queue.dispatch()
        await pass_time(connections, 1)
        assert await queue.finish("w", id_of(number), 1, BEGINNING, DONE)

    async def retry_after() -> int | None:
        return (await refused(queue, job(99))).retry_after_s

    async def interval_s() -> float:
        return float(await connections.commands.hget(PREFIX + "drain", "interval")) / 1000

    await beat(queue)
    await queue.admit(job(1))
    await end(1)
    await pass_time(connections, 300)  # idle, which is no pace
    await beat(queue)
    for number in range(2, 6):
        await queue.admit(job(number))
        await queue.dispatch()
    await end(2)
    await queue.admit(job(6))
    assert await retry_after() == 1  # one end is none either
    await end(3)
    await queue.admit(job(7))
    measured_s = await interval_s()
    assert 1 <= measured_s < 60
    assert await retry_after() == min(30, ceil(4 * measured_s))  # 3 waiting + 1

    await pass_time(connections, -3600)
    await end(4)
    await queue.admit(job(8))
    assert await interval_s() == pytest.approx(0.8 * measured_s)


async def test_bytes_bound_the_queue_too(connections: Connections) -> None:
    queue = WatchedQueue(connections, POOL, patient(max_waiting_bytes=2 * SIZE))
    await beat(queue, slots=0)
    for number in (1, 2):
        assert await queue.admit(job(number)) is None
    assert "the waiting requests hold all its bytes" in (await refused(queue, job(3))).message
    assert (await queue.depth()).waiting_bytes == 2 * SIZE
    await queue.cancel(id_of(1))
    assert (await queue.depth()).waiting_bytes == SIZE
    assert await queue.admit(job(3)) is None


@pytest.mark.parametrize("where", ["pool", "tier", "tenant"])
async def test_what_an_empty_queue_has_no_room_for_is_too_large(connections: Connections, where: str) -> None:
    bounds = {
        "pool": patient(max_waiting_bytes=SIZE - 1),
        "tier": patient(tiers={Tier.DEFAULT: Bounds(max_waiting_bytes=SIZE - 1)}),
        "tenant": patient(tenants={"default": TenantSettings(max_waiting_bytes=SIZE - 1)}),
    }
    queue = WatchedQueue(connections, POOL, bounds[where])
    await beat(queue, slots=0)
    problem = await queue.admit(job(1))
    assert problem is not None
    assert (problem.code, problem.status) == (ErrorCode.BODY_TOO_LARGE, 413)
    assert problem.retry_after_s is None
    assert f"holds {SIZE - 1} bytes" in problem.message


@pytest.mark.parametrize("bound", ["jobs", "bytes"])
async def test_a_tier_has_bounds_of_its_own(connections: Connections, bound: str) -> None:
    bounds = Bounds(max_waiting_jobs=2) if bound == "jobs" else Bounds(max_waiting_bytes=2 * SIZE)
    queue = WatchedQueue(connections, POOL, patient(tiers={Tier.DEFAULT: bounds}))
    await beat(queue, slots=0)
    for number in (1, 2):
        assert await queue.admit(job(number)) is None
    problem = await refused(queue, job(3))
    assert "for service_tier 'default'" in problem.message
    assert problem.param == "service_tier"
    assert await queue.admit(job(3, tier=Tier.PRIORITY)) is None
    await queue.cancel(id_of(1))
    assert await queue.admit(job(4)) is None


@pytest.mark.parametrize("bound", ["jobs", "bytes"])
async def test_a_tenant_has_bounds_of_its_own(connections: Connections, bound: str) -> None:
    size = len(encode(job(1, tenant="named", tier=Tier.PRIORITY)))
    bounds = (
        TenantSettings(max_waiting_jobs=2) if bound == "jobs" else TenantSettings(max_waiting_bytes=2 * size)
    )
    tenants = {"named": bounds, "default": TenantSettings(max_waiting_jobs=1)}
    queue = WatchedQueue(connections, POOL, patient(tenants=tenants))
    await beat(queue, slots=0)
    for number, tier in enumerate([Tier.FLEX, Tier.PRIORITY]):
        assert await queue.admit(job(number, tenant="named", tier=tier)) is None
    assert "for tenant 'named'" in (await refused(queue, job(3, tenant="named"))).message
    for other in ("a", "b"):  # each has the default's for itself
        assert await queue.admit(job(ord(other), tenant=other)) is None
        await refused(queue, job(4, tenant=other))
    await beat(queue)
    assert numbers(await queue.dispatch()) == [1]
    assert await queue.admit(job(5, tenant="named")) is None


async def test_the_newest_flex_jobs_make_room(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue, slots=0)
    for number, tier in enumerate([Tier.FLEX, Tier.DEFAULT, Tier.FLEX]):
        assert await queue.admit(job(number, tier=tier)) is None
    await refused(queue, job(3, tier=Tier.FLEX))  # for which nobody goes
    await connections.commands.hset(PREFIX + "drain", "interval", "2000")
    assert await queue.admit(job(4, tier=Tier.PRIORITY)) is None
    [reply] = await replies(queue)
    assert reply.end is not None
    assert reply.end.problem is not None
    assert reply.end.outcome == Outcome.REJECTED
    assert (reply.job_id, reply.end.problem.retry_after_s) == (id_of(2), 8)
    assert "made room" in reply.end.problem.message
    assert await queue.admit(job(5)) is None
    assert [number for number, *_ in await ends(queue)] == [2, 0]
    await refused(queue, job(6))
    assert (await queue.reclaim()).tally == {"shed": 2}
    await beat(queue, slots=5)
    assert numbers(await queue.dispatch()) == [4, 1, 5]


async def test_nobody_can_fill_the_queue_for_the_others(queue: PoolQueue) -> None:
    await beat(queue, slots=0)
    for number in range(3):
        assert await queue.admit(job(number, tenant="flood")) is None
    await refused(queue, job(3, tenant="flood"))
    assert await queue.admit(job(10, tenant="calm")) is None
    assert [number for number, *_ in await ends(queue)] == [2]
    await refused(queue, job(11, tenant="calm"))  # it would have more than the other
    assert await queue.admit(job(20, tenant="third")) is None
    assert [number for number, *_ in await ends(queue)] == [2, 1]
    await refused(queue, job(30, tenant="fourth"))
    await refused(queue, job(31, tenant="fourth", tier=Tier.PRIORITY))


async def test_nobody_can_fill_a_tier_for_the_others(connections: Connections) -> None:
    tiers = {Tier.FLEX: Bounds(max_waiting_jobs=2)}
    queue = WatchedQueue(connections, POOL, patient(tiers=tiers))
    await beat(queue, slots=0)
    for number in range(2):
        assert await queue.admit(job(number, tenant="flood", tier=Tier.FLEX)) is None
    assert await queue.admit(job(10, tenant="calm", tier=Tier.FLEX)) is None
    assert [number for number, *_ in await ends(queue)] == [1]
    problem = await refused(queue, job(11, tenant="calm", tier=Tier.FLEX))
    assert "for service_tier 'flex'" in problem.message


async def test_nobody_is_dropped_where_that_is_not_enough(connections: Connections) -> None:
    size = len(encode(job(1, tier=Tier.FLEX)))
    queue = WatchedQueue(connections, POOL, patient(max_waiting_bytes=3 * size))
    await beat(queue, slots=0)
    assert await queue.admit(job(0)) is None
    for number in (1, 2):
        assert await queue.admit(job(number, tier=Tier.FLEX)) is None
    await refused(queue, job(3, text="x" * (size + size // 2)))
    assert (await queue.depth()).waiting == 3
    assert await queue.admit(job(3, text="x" * (size - 20))) is None  # two of them are
    assert [number for number, *_ in await ends(queue)] == [2, 1]


async def test_an_answer_that_has_begun_is_not_dropped(queue: PoolQueue) -> None:
    await beat(queue)
    await queue.admit(job(1, tier=Tier.FLEX))
    await queue.dispatch()
    await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK)
    await queue.release("w", id_of(1), 1, counts=False)
    for number in (2, 3):
        await queue.admit(job(number))
    await refused(queue, job(4))


async def test_what_redis_lost_is_not_refused_for_want_of_room(queue: PoolQueue) -> None:
    await beat(queue, slots=0)
    for number in range(3):
        await queue.admit(job(number))
    begun = Committed(token_ids=[1, 2, 3], characters=5)
    assert await queue.admit(job(4), attempts=1, committed=begun) is None
    assert (await queue.depth()).waiting == 4


async def test_a_pool_without_worker_refuses_but_waits_for_one_just_lost(
    queue: PoolQueue, connections: Connections
) -> None:
    problem = await queue.admit(job(1))
    assert problem is not None
    assert (problem.code, problem.status) == (ErrorCode.NO_WORKER, 503)
    await beat(queue)
    await queue.worker_leave("w")
    assert await queue.admit(job(1)) is None
    assert (await queue.reclaim()).tally == {}
    await lose_pool(connections)
    assert await queue.admit(job(2)) is not None
    await pass_time(connections, 1)  # what was admitted in this very millisecond is not given up
    assert (await queue.reclaim()).tally == {"no_worker": 1}
    assert await ends(queue) == [(1, Outcome.REJECTED, ErrorCode.NO_WORKER)]
    assert await keys_of_jobs(connections) == []


async def test_an_answer_that_has_begun_fails_with_the_last_worker(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK)
    await queue.worker_leave("w")
    await lose_pool(connections)
    await queue.reclaim()
    assert await ends(queue) == [(1, Outcome.FAILED, ErrorCode.WORKER_LOST)]
    assert (await replies(queue))[-1].after == AFTER_BLOCK


async def test_a_pool_scaled_to_zero_is_a_waiting_room(connections: Connections) -> None:
    queue = WatchedQueue(connections, POOL, patient(cold_start_s=60))
    for number in (1, 2):
        assert await queue.admit(job(number)) is None
    await pass_time(connections, 30)
    assert (await queue.reclaim()).tally == {}
    await queue.admit(job(3))
    await pass_time(connections, 31)
    assert (await queue.reclaim()).tally == {"no_worker": 2}
    assert [number for number, *_ in await ends(queue)] == [1, 2]
    await beat(queue)
    assert numbers(await queue.dispatch()) == [3]


async def test_many_ends_take_several_calls(connections: Connections) -> None:
    queue = WatchedQueue(connections, POOL, patient(max_waiting_jobs=10 * AT_ONCE))
    await beat(queue, slots=0)
    for number in range(AT_ONCE + 1):
        await queue.admit(job(number))
    await lose_pool(connections)
    await pass_time(connections, 1)
    first, second = await queue.reclaim(), await queue.reclaim()
    assert (first.tally, first.more) == ({"no_worker": AT_ONCE}, True)
    assert (second.tally, second.more) == ({"no_worker": 1}, False)

    await beat(queue, slots=0)
    for number in range(AT_ONCE + 1):
        await queue.admit(job(number))
    await queue.gateway_leave("g")
    assert await keys_of_jobs(connections) == []


async def test_nobody_can_fill_the_queue_from_a_lower_tier(queue: PoolQueue) -> None:
    await beat(queue, slots=0)
    for number in range(3):
        assert await queue.admit(job(number, tenant="flood")) is None
    assert await queue.admit(job(10, tenant="calm", tier=Tier.PRIORITY)) is None
    assert [number for number, *_ in await ends(queue)] == [2]
    await refused(queue, job(11, tenant="calm", tier=Tier.PRIORITY))  # it would have as many as the other


async def test_a_higher_tier_makes_no_room(queue: PoolQueue) -> None:
    await beat(queue, slots=0)
    for number in range(3):
        assert await queue.admit(job(number, tenant="flood", tier=Tier.PRIORITY)) is None
    await refused(queue, job(10, tenant="calm"))


async def test_nobody_can_fill_the_queue_by_bytes(connections: Connections) -> None:
    queue = WatchedQueue(connections, POOL, patient(max_waiting_bytes=10_000))
    await beat(queue, slots=0)
    for number in range(3):
        assert await queue.admit(job(number, tenant="flood", text="x" * 2900)) is None
    for number in range(10, 14):
        assert await queue.admit(job(number, tenant="small")) is None
    assert await queue.admit(job(20, tenant="calm", text="x" * 2000)) is None
    assert [number for number, *_ in await ends(queue)] == [2]
    await refused(queue, job(21, tenant="calm", text="x" * 7000))  # it would have more than the other
