"""Who goes next: tiers, tenants, and those who have waited long."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from dllm_stack.messages import End, Tier
from dllm_stack.outcomes import Outcome
from dllm_stack.queue import PoolQueue
from dllm_stack.queue.script import AGED_SHARE
from dllm_stack.redis import Connections
from dllm_stack.settings import TenantSettings
from tests.queue.kit import (
    BEGINNING,
    CANCELLED,
    DONE,
    POOL,
    WatchedQueue,
    beat,
    dispatch_one,
    id_of,
    job,
    numbers,
    pass_time,
    patient,
    run_one,
)


@pytest.fixture
def queue(connections: Connections) -> PoolQueue:
    tenants = {
        "heavy": TenantSettings(weight=3),
        "limited": TenantSettings(max_running=2),
        "default": TenantSettings(),
    }
    return WatchedQueue(connections, POOL, patient(tenants=tenants))


async def test_the_first_come_is_the_first_served_when_the_clock_goes_back(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue, slots=0)
    await queue.admit(job(3))
    await pass_time(connections, -3600)
    await queue.admit(job(2))
    await queue.admit(job(1))
    await beat(queue, slots=3)
    assert numbers(await queue.dispatch()) == [3, 2, 1]


async def test_higher_tiers_go_first(queue: PoolQueue) -> None:
    for number, tier in enumerate([Tier.FLEX, Tier.DEFAULT, Tier.PRIORITY] * 2):
        await beat(queue, slots=0)
        await queue.admit(job(number, tier=tier))
    await beat(queue, slots=6)
    dispatched = await queue.dispatch()
    assert numbers(dispatched) == [2, 5, 1, 4, 0, 3]
    assert [d.tier for d in dispatched[::2]] == [Tier.PRIORITY, Tier.DEFAULT, Tier.FLEX]


@pytest.mark.parametrize("tier", [Tier.DEFAULT, Tier.FLEX])
async def test_a_tier_that_waits_too_long_gets_every_eighth_turn(
    queue: PoolQueue, connections: Connections, tier: Tier
) -> None:
    backlog, others = 3, 100
    await beat(queue, slots=0)
    for number in range(backlog):
        await queue.admit(job(number, tier=tier))
    await pass_time(connections, 31)
    for number in range(others):
        await queue.admit(job(1000 + number, tier=Tier.PRIORITY))
    await beat(queue, slots=AGED_SHARE * backlog)
    order = numbers(await queue.dispatch())
    assert [order.index(number) for number in range(backlog)] == [7, 15, 23]


async def test_two_tiers_that_wait_too_long_take_turns(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue, slots=0)
    for number in range(4):
        await queue.admit(job(number, tier=Tier.FLEX))
        await queue.admit(job(10 + number, tier=Tier.DEFAULT))
    await pass_time(connections, 31)
    for number in range(100):
        await queue.admit(job(1000 + number, tier=Tier.PRIORITY))
    await beat(queue, slots=4 * AGED_SHARE)
    assert numbers(await queue.dispatch())[AGED_SHARE - 1 :: AGED_SHARE] == [10, 0, 11, 1]


async def test_a_tier_that_has_not_waited_too_long_gets_no_turn(queue: PoolQueue) -> None:
    await beat(queue, slots=0)
    await queue.admit(job(1, tier=Tier.FLEX))
    for number in range(20):
        await queue.admit(job(1000 + number, tier=Tier.PRIORITY))
    await beat(queue, slots=20)
    assert 1 not in numbers(await queue.dispatch())


async def test_a_flood_does_not_delay_another_tenant(queue: PoolQueue) -> None:
    await beat(queue)
    for number in range(50):
        await queue.admit(job(number, tenant="flood"))
    for _ in range(10):
        await run_one(queue)
    await queue.admit(job(1000, tenant="calm"))
    await queue.admit(job(1001, tenant="calm"))
    order = [await run_one(queue) for _ in range(4)]
    assert {1000, 1001} < set(order)


async def test_tenants_share_by_weight(queue: PoolQueue) -> None:
    await beat(queue)
    for number in range(80):
        await queue.admit(job(number, tenant="heavy"))
        await queue.admit(job(1000 + number, tenant="light"))
    heavy = [await run_one(queue) < 1000 for _ in range(80)]
    assert abs(sum(heavy) - 60) <= 1


async def test_shares_are_counted_in_tokens(queue: PoolQueue) -> None:
    await beat(queue)
    for number in range(60):
        await queue.admit(job(number, tenant="long", max_tokens=400))
        await queue.admit(job(1000 + number, tenant="short", max_tokens=100))
    served = Counter()  # type: Counter[str]
    for _ in range(60):
        dispatched = await dispatch_one(queue)
        short = int(dispatched.job_id, 16) >= 1000
        served["short" if short else "long"] += 1
        end = End(outcome=Outcome.COMPLETED, completion_tokens=100 if short else 400)
        await queue.finish("w", dispatched.job_id, 1, BEGINNING, end)
    assert abs(served["short"] - 4 * served["long"]) <= 5


async def test_what_a_job_really_used_corrects_the_guess(queue: PoolQueue) -> None:
    """Both ask for 500 tokens, but one's answers have 500 and the other's 100."""
    await beat(queue)
    for number in range(60):
        await queue.admit(job(number, tenant="long", max_tokens=500))
        await queue.admit(job(1000 + number, tenant="short", max_tokens=500))
    used = {"short": 0, "long": 0}
    for _ in range(60):
        dispatched = await dispatch_one(queue)
        short = int(dispatched.job_id, 16) >= 1000
        tokens = 100 if short else 500
        used["short" if short else "long"] += tokens
        end = End(outcome=Outcome.COMPLETED, completion_tokens=tokens)
        await queue.finish("w", dispatched.job_id, 1, BEGINNING, end)
    assert abs(used["short"] - used["long"]) <= 1000


async def test_who_used_more_than_was_guessed_waits_for_it(queue: PoolQueue) -> None:
    await beat(queue, slots=2)
    await queue.admit(job(1000, tenant="long"))  # a guess of 512 tokens
    await queue.dispatch()
    for number in range(50):
        await queue.admit(job(number, tenant="busy"))
    spent = End(outcome=Outcome.COMPLETED, completion_tokens=512)
    for _ in range(5):
        await run_one(queue, spent)
    await queue.finish("w", id_of(1000), 1, BEGINNING, replace(spent, completion_tokens=5 * 512))
    await beat(queue, slots=1)
    await queue.admit(job(1001, tenant="long"))
    order = [await run_one(queue, spent) for _ in range(10)]
    assert order.index(1001) in (4, 5)


async def test_going_and_coming_is_no_gain(queue: PoolQueue) -> None:
    """One has always a job waiting, the other sends the next when the last has ended."""
    await beat(queue)
    for number in range(60):
        await queue.admit(job(number, tenant="stays"))
    sent, served = 1000, Counter()  # type: int, Counter[str]
    await queue.admit(job(sent, tenant="comes"))
    for _ in range(40):
        came = await run_one(queue) >= 1000
        served["comes" if came else "stays"] += 1
        if came:
            sent += 1
            await queue.admit(job(sent, tenant="comes"))
    assert abs(served["comes"] - served["stays"]) <= 2


async def test_the_past_earns_nothing(queue: PoolQueue) -> None:
    await beat(queue)
    for number in range(60):
        await queue.admit(job(number, tenant="busy"))
    for _ in range(30):
        await run_one(queue)
    for number in range(30):
        await queue.admit(job(1000 + number, tenant="rested"))
    served = [await run_one(queue) >= 1000 for _ in range(20)]
    assert abs(sum(served) - 10) <= 1


async def test_a_job_that_never_ran_costs_its_tenant_nothing(queue: PoolQueue) -> None:
    await beat(queue)
    for number in range(20):
        await queue.admit(job(number, tenant="a"))
        await queue.admit(job(1000 + number, tenant="b"))
    served = Counter()  # type: Counter[str]
    for turn in range(30):
        dispatched = await dispatch_one(queue)
        of_a = int(dispatched.job_id, 16) < 1000
        if of_a and turn % 2:
            await queue.release("w", dispatched.job_id, dispatched.attempt, counts=False)
        else:
            await queue.finish("w", dispatched.job_id, dispatched.attempt, BEGINNING, DONE)
            served["a" if of_a else "b"] += 1
    assert abs(served["a"] - served["b"]) <= 1


async def test_a_tenant_runs_no_more_than_its_limit(queue: PoolQueue) -> None:
    await beat(queue, slots=0)
    for number in range(4):
        await queue.admit(job(number, tenant="limited"))
    await queue.admit(job(4, tenant="limited", tier=Tier.PRIORITY))
    await queue.admit(job(1000, tenant="other"))
    await beat(queue, slots=10)
    assert sorted(numbers(await queue.dispatch())) == [0, 4, 1000]
    await queue.admit(job(5, tenant="limited"))
    assert await queue.dispatch() == []
    await queue.finish("w", id_of(0), 1, BEGINNING, DONE)
    assert numbers(await queue.dispatch()) == [1]
    assert await queue.release("w", id_of(1), 1, counts=False) == "requeued"
    assert numbers(await queue.dispatch()) == [1]
    await queue.cancel(id_of(1))
    assert await queue.dispatch() == []  # its slot is not free yet
    await queue.finish("w", id_of(1), 2, BEGINNING, CANCELLED)
    assert numbers(await queue.dispatch()) == [2]
    await queue.worker_leave("w")
    await beat(queue, "other", slots=10)
    assert sorted(numbers(await queue.dispatch())) == [2, 4, 1000]


async def test_a_job_that_comes_back_is_first_of_its_tenant(queue: PoolQueue) -> None:
    await beat(queue)
    for number in range(3):
        await queue.admit(job(number))
    await queue.dispatch()
    await queue.release("w", id_of(0), 1, counts=True)
    assert [await run_one(queue) for _ in range(3)] == [0, 1, 2]
