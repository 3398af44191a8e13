"""A job that nobody is before goes to a free slot in the step that admits it."""

from __future__ import annotations

import pytest

from dllm_stack.messages import Cancel, Claim, Committed, Job, Tier
from dllm_stack.outcomes import ErrorCode, Outcome
from dllm_stack.queue import PoolQueue
from dllm_stack.queue.script import FEW_WORKERS
from dllm_stack.redis import Connections
from dllm_stack.settings import RouterSettings, TenantSettings
from tests.queue.kit import (
    BEGINNING,
    BLOCK,
    CANCELLED,
    DONE,
    POOL,
    PREFIX,
    WatchedQueue,
    beat,
    commands,
    ends,
    id_of,
    job,
    keys_of_jobs,
    kill,
    lose_pool,
    numbers,
    pass_time,
    patient,
    sleeps_on,
)


@pytest.fixture
def queue(connections: Connections) -> WatchedQueue:
    tenants = {"limited": TenantSettings(max_running=1), "default": TenantSettings()}
    return WatchedQueue(connections, POOL, patient(tenants=tenants))


async def went(queue: WatchedQueue, admitted: Job) -> bool:
    """Admits it, and says whether it went to a slot at once."""
    assert await queue.admit(admitted) is None
    return numbers(queue.told()) == [int(admitted.id, 16)]


async def test_no_router_is_needed(queue: WatchedQueue, connections: Connections) -> None:
    await beat(queue)
    assert await queue.admit(job(1, tier=Tier.PRIORITY)) is None
    [told] = queue.told()
    assert (told.job_id, told.worker, told.attempt, told.waited_s) == (id_of(1), "w", 1, 0.0)
    assert await commands(queue) == [Claim(job(1, tier=Tier.PRIORITY), 1)]
    assert await sleeps_on(queue)
    depth = await queue.depth()
    assert (depth.waiting, depth.running) == (0, 1)
    assert await queue.finish("w", id_of(1), 1, BEGINNING, DONE)
    assert await went(queue, job(2))
    assert await queue.finish("w", id_of(2), 1, BEGINNING, DONE)
    assert await keys_of_jobs(connections) == []


async def test_routers_hear_of_it_once(queue: WatchedQueue) -> None:
    await beat(queue, slots=3)
    for number, tier in enumerate((Tier.FLEX, Tier.DEFAULT, Tier.FLEX, Tier.FLEX)):
        await queue.admit(job(number, tier=tier))
    reclaimed = await queue.reclaim()
    assert (reclaimed.at_once, reclaimed.tally) == ({Tier.FLEX: 2, Tier.DEFAULT: 1}, {})
    assert (await queue.reclaim()).at_once == {}
    await queue.finish("w", id_of(0), 1, BEGINNING, DONE)
    assert numbers(await queue.dispatch())[-1] == 3
    assert (await queue.reclaim()).at_once == {}  # a router has counted that itself


async def test_sent_again_it_is_admitted_once(queue: WatchedQueue) -> None:
    await beat(queue, slots=2)
    for _ in range(3):
        assert await queue.admit(job(1)) is None
    assert numbers(queue.told()) == [1]
    assert await commands(queue) == [Claim(job(1), 1)]
    assert (await queue.depth()).running == 1
    assert (await queue.reclaim()).at_once == {Tier.DEFAULT: 1}


@pytest.mark.parametrize("tier", list(Tier))
async def test_whoever_is_ready_goes_first(queue: WatchedQueue, tier: Tier) -> None:
    """A router has been woken for it: to go by it would be to jump the queue."""
    await beat(queue, slots=0)
    assert not await went(queue, job(1, tier=Tier.FLEX))
    await beat(queue, slots=2)
    assert not await went(queue, job(2, tier=tier))
    assert not await sleeps_on(queue)
    assert sorted(numbers(await queue.dispatch())) == [1, 2]
    await beat(queue, slots=3, held=[id_of(1), id_of(2)])
    assert await went(queue, job(3))


async def test_who_waits_for_a_limit_of_its_own_holds_nobody_up(queue: WatchedQueue) -> None:
    await beat(queue, slots=3)
    assert await went(queue, job(1, tenant="limited"))
    assert not await went(queue, job(2, tenant="limited"))
    assert not await went(queue, job(3, tenant="limited", tier=Tier.PRIORITY))
    assert await went(queue, job(4, tenant="other", tier=Tier.FLEX))
    await queue.finish("w", id_of(1), 1, BEGINNING, DONE)
    assert not await went(queue, job(5, tenant="other"))
    assert numbers(await queue.dispatch()) == [3, 5]


async def test_a_paused_pool_starts_nothing(queue: WatchedQueue) -> None:
    await beat(queue)
    await queue.pause()
    assert not await went(queue, job(1))
    await queue.resume()
    assert numbers(await queue.dispatch()) == [1]


@pytest.mark.parametrize("why", ["paused", "draining", "set aside", "dead", "busy", "gone"])
async def test_where_no_worker_can_have_it_it_waits(
    connections: Connections, queue: WatchedQueue, why: str
) -> None:
    await beat(queue)
    if why == "paused":
        await queue.pause_worker("w")
    elif why == "draining":
        await queue.drain_worker("w")
    elif why == "set aside":
        queue = WatchedQueue(connections, POOL, patient(breaker_failures=1, breaker_s=300))
        assert await went(queue, job(10))
        await queue.release("w", id_of(10), 1, counts=True)
        await queue.cancel(id_of(10))
    elif why == "dead":
        await kill(connections, "workers", "w")
    elif why == "busy":
        assert await went(queue, job(10))
    else:
        await queue.worker_leave("w")
    assert not await went(queue, job(1))
    assert (await queue.depth()).waiting == 1
    await beat(queue, "other")
    assert [(d.job_id, d.worker) for d in await queue.dispatch()] == [(id_of(1), "other")]


async def test_a_draining_pool_goes_on_with_what_redis_lost(queue: WatchedQueue) -> None:
    await beat(queue)
    await queue.drain()
    problem = await queue.admit(job(1))
    assert problem is not None
    assert problem.code is ErrorCode.POOL_DRAINING
    assert await queue.admit(job(2), attempts=4) is None
    assert [(d.job_id, d.attempt) for d in queue.told()] == [(id_of(2), 5)]


async def test_a_job_that_redis_lost_goes_on_where_it_was(
    queue: WatchedQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK)
    await connections.commands.flushall()
    # Its worker still runs the first attempt when the gateway brings it back.
    assert await beat(queue, slots=2, held=[id_of(1)]) == [id_of(1)]
    begun = Committed(token_ids=BLOCK.token_ids, characters=len(BLOCK.text))
    queue.told()
    for _ in range(2):
        assert await queue.admit(job(1), attempts=4, committed=begun) is None
    assert [(d.attempt, d.committed) for d in queue.told()] == [(5, 3)]
    assert await commands(queue) == [Claim(job(1), 5, begun)]
    assert not await queue.finish("w", id_of(1), 1, BEGINNING, CANCELLED)
    reclaimed = await queue.reclaim()
    assert (reclaimed.at_once, reclaimed.tally) == ({Tier.DEFAULT: 1}, {"continued": 1})


async def test_a_gateway_that_dies_right_after_leaves_nothing(
    queue: WatchedQueue, connections: Connections
) -> None:
    await beat(queue)
    assert await went(queue, job(1))
    await kill(connections, "gateways", "g")
    assert (await queue.reclaim()).orphans == 1
    assert await commands(queue) == [Claim(job(1), 1), Cancel(id_of(1), 1)]
    assert not await went(queue, job(2, gateway="other"))  # until its worker says that it has stopped
    assert await queue.finish("w", id_of(1), 1, BEGINNING, CANCELLED)
    assert numbers(await queue.dispatch()) == [2]
    await queue.finish("w", id_of(2), 1, BEGINNING, DONE)
    assert await keys_of_jobs(connections) == []


async def test_a_worker_that_dies_with_it_costs_a_try(queue: WatchedQueue, connections: Connections) -> None:
    await beat(queue)
    assert await went(queue, job(1))
    await kill(connections, "workers", "w")
    assert (await queue.reclaim()).fates == {"w": ["requeued"]}
    await beat(queue, "other")
    assert [(d.worker, d.attempt) for d in await queue.dispatch()] == [("other", 2)]


async def test_its_time_runs_from_its_admission(queue: WatchedQueue, connections: Connections) -> None:
    await beat(queue)
    assert await went(queue, job(1, timeout_s=300))
    await pass_time(connections, 300)
    await queue.reclaim()
    assert await ends(queue) == [(1, Outcome.EXPIRED, ErrorCode.DEADLINE_EXCEEDED)]
    assert (await commands(queue))[-1] == Cancel(id_of(1), 1)


async def test_policies_choose_its_worker(connections: Connections) -> None:
    queue = WatchedQueue(connections, POOL, patient(), RouterSettings(policies=["session"]))
    names = [f"w{number}" for number in range(20)]
    for name in names:
        await beat(queue, name, slots=100)
    for number in range(20):
        assert await queue.admit(job(number, session="s")) is None
    assert len({told.worker for told in queue.told()}) == 1
    for number in range(20, 40):
        await queue.admit(job(number, session=str(number)))
    assert len({told.worker for told in queue.told()}) > 1


async def test_whoever_has_died_is_passed_over(connections: Connections, queue: WatchedQueue) -> None:
    """Though the session would prefer it, and no router has found it dead yet."""
    alive = ["a", "b", "c"]
    for name in alive:
        await beat(queue, name, slots=2)
    for number in range(3):
        assert await queue.admit(job(number, session="s")) is None
        [told] = queue.told()
        alive.remove(told.worker)
        await queue.finish(told.worker, id_of(number), 1, BEGINNING, DONE)
        await kill(connections, "workers", told.worker)
    assert not await went(queue, job(3, session="s"))
    await beat(queue, "d")
    assert [told.worker for told in await queue.dispatch()] == ["d"]


async def test_among_many_workers_a_router_chooses(queue: WatchedQueue) -> None:
    for number in range(FEW_WORKERS):
        await beat(queue, f"w{number}")
    assert await went(queue, job(1))
    await beat(queue, "more", slots=2)
    assert await went(queue, job(2))
    for number in range(FEW_WORKERS, FEW_WORKERS + 2):
        await beat(queue, f"w{number}")
    assert not await went(queue, job(3))
    assert not await sleeps_on(queue)
    assert numbers(await queue.dispatch()) == [3]


async def test_it_is_charged_to_its_tenant(queue: WatchedQueue, connections: Connections) -> None:
    await beat(queue, slots=2)
    assert await went(queue, job(1, tenant="long", max_tokens=500))
    assert await went(queue, job(2, tenant="short", max_tokens=1))
    for number in (3, 4):
        await queue.admit(job(number, tenant="long"))
        await queue.admit(job(10 + number, tenant="short"))
    await queue.finish("w", id_of(2), 1, BEGINNING, DONE)
    assert numbers(await queue.dispatch())[-1] == 13
    assert await connections.commands.hget(PREFIX + "fair", "turn") == b"3"


async def test_a_pool_without_worker_still_refuses(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue)
    await kill(connections, "workers", "w")
    await lose_pool(connections)
    problem = await queue.admit(job(1))
    assert problem is not None
    assert problem.code is ErrorCode.NO_WORKER
