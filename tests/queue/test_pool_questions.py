"""Questions to workers, and where a job waits."""

from __future__ import annotations

import pytest

from dllm_stack.messages import (
    Information,
    Question,
    Reply,
    TextPrompt,
    Tier,
    Tokenize,
)
from dllm_stack.queue import PoolQueue, Position
from dllm_stack.redis import Connections
from tests.queue.kit import (
    POOL,
    PREFIX,
    WatchedQueue,
    beat,
    commands,
    dispatch_one,
    id_of,
    job,
    kill,
    patient,
    replies,
)

ASKED = Question("q" * 32, "g", Tokenize([TextPrompt("Hi")], True))
TOLD = Information(token_ids=[[1, 2]], context_length=100)


@pytest.fixture
def queue(connections: Connections) -> PoolQueue:
    return WatchedQueue(connections, POOL, patient())


async def test_a_worker_is_asked_and_tells(queue: PoolQueue) -> None:
    await beat(queue, slots=0)
    assert await queue.ask(ASKED)
    assert await commands(queue) == [ASKED]
    await queue.tell("w", ASKED, TOLD)
    (reply,) = await replies(queue)
    assert isinstance(reply, Reply)
    assert (reply.job_id, reply.worker, reply.information) == (ASKED.id, "w", TOLD)
    assert (reply.block, reply.end) == (None, None)


async def test_without_a_live_worker_nobody_is_asked(queue: PoolQueue, connections: Connections) -> None:
    assert not await queue.ask(ASKED)
    await beat(queue)
    await kill(connections, "workers", "w")
    assert not await queue.ask(ASKED)
    assert await commands(queue) == []


async def test_all_workers_are_asked_in_the_end(queue: PoolQueue, connections: Connections) -> None:
    workers = ("u", "v", "w")
    for worker in workers:
        await beat(queue, worker)
    while not all([await connections.commands.xlen(f"{PREFIX}commands:{each}") for each in workers]):
        assert await queue.ask(ASKED)


async def test_a_gateway_that_is_gone_is_told_nothing(queue: PoolQueue, connections: Connections) -> None:
    await beat(queue)
    assert await queue.ask(ASKED)
    await queue.gateway_leave("g")
    await queue.tell("w", ASKED, TOLD)
    assert not await connections.commands.exists(f"{PREFIX}replies:g")


async def test_where_a_job_waits(queue: PoolQueue) -> None:
    await beat(queue, slots=0)
    for number, tier in enumerate((Tier.DEFAULT, Tier.FLEX, Tier.DEFAULT, Tier.PRIORITY)):
        assert await queue.admit(job(number, tier=tier)) is None
    places = [await queue.position(id_of(number)) for number in range(4)]
    assert places == [Position(2, 4), Position(4, 4), Position(3, 4), Position(1, 4)]
    await beat(queue, slots=1)
    assert (await dispatch_one(queue)).job_id == id_of(3)
    assert await queue.position(id_of(3)) is None
    assert await queue.position(id_of(1)) == Position(3, 3)
    assert await queue.position(id_of(9)) is None
