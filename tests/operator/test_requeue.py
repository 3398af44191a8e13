"""`dllm-stack queue requeue-dead`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dllm_stack.messages import Claim, End
from dllm_stack.outcomes import Outcome
from dllm_stack.queue import START, PoolQueue
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings
from tests.operator.command_line import run, started
from tests.queue.kit import (
    AFTER_BLOCK,
    BEGINNING,
    BLOCK,
    DONE,
    PREFIX,
    beat,
    id_of,
    job,
    keys_of_jobs,
)
from tests.waiting import eventually


async def kill_its_worker(queue: PoolQueue, number: int) -> None:
    await beat(queue)
    await queue.admit(job(number, text=f"prompt {number}"))
    await queue.dispatch()
    assert await queue.release("w", id_of(number), 1, counts=True) == "failed"


async def dead(queue: PoolQueue) -> list[str]:
    return [letter.job_id for letter in await queue.dead()]


@asynccontextmanager
async def answering(queue: PoolQueue, end: End | None) -> AsyncIterator[list[Claim]]:
    """A worker that sends a block and then this end, or else dies; yields what it was given."""
    claims: list[Claim] = []

    async def work() -> None:
        await beat(queue, slots=1)
        after, _ = await queue.commands("w", START)  # of those that have died
        while True:
            after, given = await queue.commands("w", after)
            for claim in given:
                assert isinstance(claim, Claim)
                claims.append(claim)
                lease = "w", claim.job.id, claim.attempt
                await queue.commit(*lease, BEGINNING, BLOCK)
                if end is None:
                    await queue.release(*lease, counts=True)
                else:
                    await queue.finish(*lease, AFTER_BLOCK, end)

    task = asyncio.create_task(work())
    try:
        yield claims
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_dead_job_runs_again_and_its_answer_is_printed(
    queue: PoolQueue, connections: Connections, redis_settings: RedisSettings
) -> None:
    await kill_its_worker(queue, 1)
    await kill_its_worker(queue, 2)
    async with answering(queue, DONE) as claims:
        result = await run(redis_settings, "requeue-dead", id_of(2))
    assert result == (0, "hello\n", f"{id_of(2)}: completed, 3 tokens\n")
    assert claims[-1].job.prompt == job(2, text="prompt 2").prompt
    assert await dead(queue) == [id_of(1)]
    assert await keys_of_jobs(connections) == []
    assert await connections.commands.zrange(f"{PREFIX}gateways", 0, -1) == [b"g"]  # of the dead jobs


async def test_all_of_them(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    await kill_its_worker(queue, 1)
    await kill_its_worker(queue, 2)
    async with answering(queue, DONE):
        assert (await run(redis_settings, "requeue-dead")).out == "hello\nhello\n"
    assert await run(redis_settings, "requeue-dead") == (0, "", "There are no dead jobs.\n")


async def test_one_that_dies_again_is_kept_once(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    await kill_its_worker(queue, 1)
    async with answering(queue, None):
        status, out, err = await run(redis_settings, "requeue-dead")
    assert (status, out) == (1, "")
    assert err.splitlines() == [
        f"{id_of(1)}: failed: Every worker that ran this request was lost.",
        "1 of 1 did not complete; they are kept.",
    ]
    assert await dead(queue) == [id_of(1)]


async def test_without_a_worker_it_says_so(
    queue: PoolQueue, connections: Connections, redis_settings: RedisSettings
) -> None:
    await kill_its_worker(queue, 1)
    await queue.worker_leave("w")
    await connections.commands.delete(f"{PREFIX}last_worker")
    status, _, err = await run(redis_settings, "requeue-dead")
    assert status == 1
    assert err.startswith(f"{id_of(1)}: rejected: No worker serves 'tiny' at present.\n")
    assert await dead(queue) == [id_of(1)]


async def test_an_id_that_is_not_dead(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    await kill_its_worker(queue, 1)
    result = await run(redis_settings, "requeue-dead", id_of(1), id_of(7))
    assert result == (1, "", f"No dead job has this id: {id_of(7)}.\n")
    assert await dead(queue) == [id_of(1)]


async def test_interrupted_it_leaves_nothing_running(
    queue: PoolQueue, connections: Connections, redis_settings: RedisSettings
) -> None:
    await kill_its_worker(queue, 1)
    await beat(queue, slots=0)
    async with started(redis_settings, "requeue-dead") as process:
        await eventually(lambda: waits(queue))
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
    assert await keys_of_jobs(connections) == []
    assert await dead(queue) == [id_of(1)]


async def waits(queue: PoolQueue) -> bool:
    return bool(await queue.waiting(1))


async def test_the_end_of_a_failed_run_is_told(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    await kill_its_worker(queue, 1)
    async with answering(queue, End(outcome=Outcome.FAILED)):
        assert (await run(redis_settings, "requeue-dead")).err.startswith(f"{id_of(1)}: failed\n")
    assert await dead(queue) == [id_of(1)]


async def test_a_large_request_was_not_kept(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    await beat(queue)
    await queue.admit(job(1, text="x" * 70_000))
    await queue.dispatch()
    await queue.release("w", id_of(1), 1, counts=True)
    status, _, err = await run(redis_settings, "requeue-dead")
    assert (status, err.splitlines()[0]) == (1, f"{id_of(1)}: was not kept: it is too large")
