"""Answers go on where they stopped, whoever goes on with them, and whatever is sent twice or lost."""

from __future__ import annotations

import pytest

from dllm_stack.messages import Block, Claim, Committed, Place
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
    commands,
    dispatch_one,
    id_of,
    job,
    keys_of_jobs,
    kill,
    last_claim,
    patient,
    replies,
)

MORE = Block(text="böse 🜁", token_ids=[4, 2**31 - 1], prompt_tokens=5)
AFTER_MORE = Place(5, 11)
BOTH = Committed(token_ids=[1, 2, 3, 4, 2**31 - 1], characters=11)


@pytest.fixture
async def queue(connections: Connections) -> PoolQueue:
    """With job 1 at worker `w`."""
    queue = WatchedQueue(connections, POOL, patient(max_attempts=3))
    await beat(queue)
    await queue.admit(job(1))
    await queue.dispatch()
    return queue


@pytest.mark.parametrize("how", ["death", "release", "leave"])
async def test_the_next_attempt_goes_on_from_what_was_committed(
    queue: PoolQueue, connections: Connections, how: str
) -> None:
    assert await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK) == (True, 3)
    assert await queue.commit("w", id_of(1), 1, AFTER_BLOCK, MORE) == (True, 5)
    match how:
        case "death":
            await kill(connections, "workers", "w")
            await queue.reclaim()
        case "release":
            assert await queue.release("w", id_of(1), 1, counts=True) == "requeued"
        case _:
            await queue.worker_leave("w")
    await beat(queue, "v")
    if how == "release":
        await queue.worker_leave("w")
    dispatched = await dispatch_one(queue)
    assert (dispatched.worker, dispatched.committed) == ("v", 5)
    assert await commands(queue, "v") == [Claim(job(1), 2, BOTH)]
    assert (await queue.reclaim()).tally == {"continued": 1}

    assert await queue.commit("v", id_of(1), 2, AFTER_MORE, BLOCK) == (True, 8)
    assert await queue.release("v", id_of(1), 2, counts=True) == "requeued"
    await queue.dispatch()
    claim = await last_claim(queue, "v")
    assert claim.committed.token_ids == [*BOTH.token_ids, *BLOCK.token_ids]
    assert await queue.finish("v", id_of(1), 3, Place(8, 16), DONE)
    assert [(r.attempt, r.after) for r in await replies(queue)] == [
        (1, BEGINNING),
        (1, AFTER_BLOCK),
        (2, AFTER_MORE),
        (3, Place(8, 16)),
    ]
    assert await keys_of_jobs(connections) == []


async def test_a_block_sent_twice_counts_once(queue: PoolQueue) -> None:
    for _ in range(2):
        assert await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK) == (True, 3)
    assert await queue.commit("w", id_of(1), 1, AFTER_BLOCK, MORE) == (True, 5)
    assert await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK) == (True, 5)
    assert [r.after for r in await replies(queue)] == [BEGINNING, AFTER_BLOCK]


async def forget_block(connections: Connections) -> None:
    """Redis is as it was before the first block."""
    await connections.commands.delete(PREFIX + "answer:" + id_of(1))
    await connections.commands.hset(PREFIX + "job:" + id_of(1), mapping={"tokens": 0, "characters": 0})


async def test_tokens_that_redis_lost_are_asked_for_again(queue: PoolQueue, connections: Connections) -> None:
    await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK)
    await forget_block(connections)
    assert await queue.commit("w", id_of(1), 1, AFTER_BLOCK, MORE) == (True, 0)
    assert await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK) == (True, 3)
    assert await queue.commit("w", id_of(1), 1, AFTER_BLOCK, MORE) == (True, 5)
    await queue.release("w", id_of(1), 1, counts=False)
    await queue.dispatch()
    assert (await last_claim(queue)).committed == BOTH


async def test_an_end_to_which_redis_lost_a_part_is_made_again(
    queue: PoolQueue, connections: Connections
) -> None:
    await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK)
    await forget_block(connections)
    assert await queue.finish("w", id_of(1), 1, AFTER_BLOCK, DONE, MORE)
    assert [r.end for r in await replies(queue)] == [None]
    assert (await dispatch_one(queue)).attempt == 2
    assert (await last_claim(queue)).committed == Committed()
    assert await queue.finish("w", id_of(1), 2, BEGINNING, DONE)
    assert (await replies(queue))[-1].end == DONE


async def test_a_job_that_redis_lost_goes_on_from_what_its_gateway_has(
    queue: PoolQueue, connections: Connections
) -> None:
    await connections.commands.flushall()
    await beat(queue)
    assert await queue.admit(job(1), attempts=4, committed=BOTH) is None
    dispatched = await dispatch_one(queue)
    assert (dispatched.attempt, dispatched.committed) == (5, 5)
    assert await last_claim(queue) == Claim(job(1), 5, BOTH)
    assert await queue.commit("w", id_of(1), 5, AFTER_MORE, BLOCK) == (True, 8)
