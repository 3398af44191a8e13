"""Jobs end when their time is over, wherever they are."""

from __future__ import annotations

import pytest

from dllm_stack.messages import Cancel
from dllm_stack.outcomes import ErrorCode, Outcome
from dllm_stack.queue import PoolQueue
from dllm_stack.redis import Connections
from tests.queue.kit import (
    AFTER_BLOCK,
    BEGINNING,
    BLOCK,
    CANCELLED,
    POOL,
    WatchedQueue,
    beat,
    commands,
    ends,
    id_of,
    job,
    keys_of_jobs,
    numbers,
    pass_time,
    patient,
    replies,
)

EXPIRED = (1, Outcome.EXPIRED, ErrorCode.DEADLINE_EXCEEDED)


@pytest.fixture
def queue(connections: Connections) -> PoolQueue:
    return WatchedQueue(connections, POOL, patient())


async def test_a_waiting_job_expires(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue, slots=0)
    await queue.admit(job(1, timeout_s=1000))
    await queue.admit(job(2, timeout_s=2000))
    await queue.admit(job(3))
    await pass_time(connections, 900)
    assert (await queue.reclaim()).tally == {}
    await pass_time(connections, 200)
    assert (await queue.reclaim()).tally == {"expired": 1}
    assert await ends(queue) == [EXPIRED]
    await beat(queue, slots=3)
    assert numbers(await queue.dispatch()) == [2, 3]


async def test_an_expired_job_is_never_dispatched(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue, slots=0)
    await queue.admit(job(1, timeout_s=300))
    await queue.admit(job(2))
    await pass_time(connections, 300)
    await beat(queue)
    assert numbers(await queue.dispatch()) == [2]
    assert await ends(queue) == [EXPIRED]
    assert (await queue.reclaim()).tally == {"expired": 1}


async def test_a_running_job_expires_and_its_slot_is_free_once_it_has_stopped(
    queue: PoolQueue, connections: Connections
) -> None:
    await beat(queue)
    await queue.admit(job(1, timeout_s=300))
    await queue.admit(job(2))
    await queue.dispatch()
    await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK)
    await pass_time(connections, 310)
    assert (await queue.reclaim()).tally == {"expired": 1}
    assert (await queue.reclaim()).tally == {}
    assert await ends(queue) == [EXPIRED]
    last = (await replies(queue))[-1]
    assert (last.worker, last.attempt, last.after) == ("", 2, AFTER_BLOCK)
    assert (await commands(queue))[-1] == Cancel(id_of(1), 1)
    assert not (await queue.commit("w", id_of(1), 1, AFTER_BLOCK, BLOCK)).wanted
    assert await queue.dispatch() == []
    assert await queue.finish("w", id_of(1), 1, AFTER_BLOCK, CANCELLED)
    assert numbers(await queue.dispatch()) == [2]
    assert len(await ends(queue)) == 1


async def test_a_job_that_comes_back_too_late_expires(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue)
    await queue.admit(job(1, timeout_s=300))
    await queue.dispatch()
    await pass_time(connections, 310)
    assert await queue.release("w", id_of(1), 1, counts=True) == "requeued"
    assert await queue.dispatch() == []
    assert await ends(queue) == [EXPIRED]
    assert await keys_of_jobs(connections) == []


async def test_a_cancelled_job_does_not_expire(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue)
    await queue.admit(job(1, timeout_s=300))
    await queue.dispatch()
    await queue.cancel(id_of(1))
    await pass_time(connections, 310)
    assert (await queue.reclaim()).tally == {}
    assert await replies(queue) == []
