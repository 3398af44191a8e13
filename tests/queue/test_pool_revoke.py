"""An operator ends a job: its client is told, once, and its slot is free when its worker has stopped."""

from __future__ import annotations

import pytest

from dllm_stack.messages import Cancel, Place
from dllm_stack.outcomes import ErrorCode, Outcome
from dllm_stack.queue import PoolQueue
from dllm_stack.redis import Connections
from tests.queue.kit import (
    AFTER_BLOCK,
    BEGINNING,
    BLOCK,
    CANCELLED,
    DONE,
    POOL,
    WatchedQueue,
    beat,
    commands,
    ends,
    id_of,
    job,
    keys_of_jobs,
    patient,
    replies,
)

REVOKED = (1, Outcome.CANCELLED, ErrorCode.CANCELLED)


@pytest.fixture
def queue(connections: Connections) -> PoolQueue:
    return WatchedQueue(connections, POOL, patient())


async def test_a_waiting_job(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue, slots=0)
    await queue.admit(job(1))
    assert await queue.revoke(id_of(1))
    assert await ends(queue) == [REVOKED]
    await beat(queue, slots=1)
    assert await queue.dispatch() == []
    assert (await queue.reclaim()).tally == {"revoked": 1}
    assert await keys_of_jobs(connections) == []


async def test_a_running_job(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue, slots=1)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK)
    assert await queue.revoke(id_of(1))
    assert (await commands(queue))[-1] == Cancel(id_of(1), 1)
    assert not (await queue.commit("w", id_of(1), 1, AFTER_BLOCK, BLOCK)).wanted
    assert (await queue.depth()).running == 1
    await queue.finish("w", id_of(1), 1, AFTER_BLOCK, CANCELLED)
    assert (await queue.depth()).running == 0
    assert await ends(queue) == [REVOKED]
    assert (await replies(queue))[-1].after == Place(3, 5)
    assert await keys_of_jobs(connections) == []


async def test_a_worker_that_completes_it_meanwhile_is_too_late(queue: PoolQueue) -> None:
    await beat(queue, slots=1)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.revoke(id_of(1))
    await queue.finish("w", id_of(1), 1, BEGINNING, DONE)
    assert await ends(queue) == [REVOKED]


async def test_a_worker_that_dies_does_not_bring_it_back(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue, slots=1)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.revoke(id_of(1))
    await queue.worker_leave("w")
    assert await ends(queue) == [REVOKED]
    assert await keys_of_jobs(connections) == []


async def test_a_job_that_nobody_waits_for(queue: PoolQueue) -> None:
    assert not await queue.revoke(id_of(1))
    await beat(queue, slots=1)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.cancel(id_of(1))
    assert not await queue.revoke(id_of(1))
    assert await replies(queue) == []
