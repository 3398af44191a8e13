"""What a tenant pays for jobs that do not end as they should, and for long ones."""

from __future__ import annotations

import pytest

from dllm_stack.messages import Block, Place
from dllm_stack.queue import Dispatched, PoolQueue
from dllm_stack.queue.script import BLOCK_TOKENS
from dllm_stack.redis import Connections
from tests.queue.kit import (
    BEGINNING,
    CANCELLED,
    FAILED,
    POOL,
    PREFIX,
    WatchedQueue,
    beat,
    dispatch_one,
    id_of,
    job,
    kill,
    pass_time,
    patient,
)

PROMPT = "x" * 4000  # 1000 tokens
LEAST = 1000 + BLOCK_TOKENS
BLOCK = Block(text="x", token_ids=[1] * 100, prompt_tokens=1000)


@pytest.fixture
def queue(connections: Connections) -> PoolQueue:
    return WatchedQueue(connections, POOL, patient(breaker_failures=1000))


async def paid(connections: Connections, tenant: str = "a") -> float:
    """By a tenant since the pool was last idle; it has jobs waiting."""
    tag = await connections.commands.zscore(PREFIX + "ready:default", tenant)
    assert tag is not None
    return float(tag)


async def first_of_two(queue: PoolQueue) -> Dispatched:
    """A running job, behind which another of its tenant waits."""
    await beat(queue)
    for number in (1, 2):
        await queue.admit(job(number, tenant="a", text=PROMPT, timeout_s=60))
    return await dispatch_one(queue)


@pytest.mark.parametrize("end", ["cancelled", "failed", "expired", "worker died", "given back"])
@pytest.mark.parametrize("committed", [0, 100])
async def test_a_lease_that_began_is_paid_for(
    queue: PoolQueue, connections: Connections, end: str, committed: int
) -> None:
    lease = await first_of_two(queue)
    if committed:
        await queue.commit("w", lease.job_id, 1, BEGINNING, BLOCK)
    match end:
        case "cancelled":
            await queue.cancel(lease.job_id)
            await queue.finish("w", lease.job_id, 1, BEGINNING, CANCELLED)
        case "failed":
            await queue.finish("w", lease.job_id, 1, BEGINNING, FAILED)
        case "expired":
            await queue.reclaim()
            await connections.commands.zadd(PREFIX + "deadlines", {lease.job_id: 1})
            await queue.reclaim()
            await queue.finish("w", lease.job_id, 1, BEGINNING, CANCELLED)
        case "worker died":
            await queue.reclaim()
            await kill(connections, "workers", "w")
            await queue.reclaim()
        case _:
            await queue.release("w", lease.job_id, 1, counts=True)
    assert await paid(connections) == LEAST + committed


async def test_what_no_engine_saw_costs_nothing(queue: PoolQueue, connections: Connections) -> None:
    lease = await first_of_two(queue)
    await queue.release("w", lease.job_id, 1, counts=False)
    assert await paid(connections) == 0
    await dispatch_one(queue)
    await queue.worker_leave("w")
    assert await paid(connections) == 0


async def test_each_attempt_is_paid_for_once(queue: PoolQueue, connections: Connections) -> None:
    lease = await first_of_two(queue)
    await queue.commit("w", lease.job_id, 1, BEGINNING, BLOCK)
    await queue.release("w", lease.job_id, 1, counts=False)
    assert await paid(connections) == LEAST + 100
    await dispatch_one(queue)
    await queue.commit("w", lease.job_id, 2, Place(100, 1), BLOCK)
    await queue.release("w", lease.job_id, 2, counts=False)
    assert await paid(connections) == 2 * (LEAST + 100)
    await queue.cancel(lease.job_id)  # while it waits
    assert await paid(connections) == 2 * (LEAST + 100)


async def test_a_long_answer_is_paid_for_as_it_is_made(queue: PoolQueue, connections: Connections) -> None:
    lease = await first_of_two(queue)  # its estimate is the prompt and 512
    for blocks in range(1, 9):
        place = Place(100 * (blocks - 1), blocks - 1)
        for _ in range(2):  # the second is a repeat
            await queue.commit("w", lease.job_id, 1, place, BLOCK)
        assert await paid(connections) == 1000 + max(512, 100 * blocks)
    await queue.finish("w", lease.job_id, 1, Place(800, 8), FAILED)
    assert await paid(connections) == LEAST + 800


async def test_who_cancels_does_not_starve_the_others(queue: PoolQueue) -> None:
    await beat(queue)
    for number in range(40):
        await queue.admit(job(number, tenant="a", text=PROMPT))
        await queue.admit(job(1000 + number, tenant="b", text=PROMPT))
    served = []
    for _ in range(20):
        lease = await dispatch_one(queue)
        served.append(int(lease.job_id, 16) >= 1000)
        if not served[-1]:
            await queue.cancel(lease.job_id)
        await queue.finish("w", lease.job_id, 1, BEGINNING, FAILED if served[-1] else CANCELLED)
    assert abs(sum(served) - 10) <= 1


async def test_a_worker_is_not_set_aside_for_long_when_the_clock_goes_back(connections: Connections) -> None:
    queue = WatchedQueue(connections, POOL, patient(breaker_failures=1))
    await beat(queue)
    await queue.admit(job(1))
    await dispatch_one(queue)
    await queue.finish("w", id_of(1), 1, BEGINNING, FAILED)
    await pass_time(connections, -3600)
    await beat(queue)
    await pass_time(connections, 301)
    await beat(queue)
    await queue.admit(job(2))
    assert (await dispatch_one(queue)).job_id == id_of(2)
