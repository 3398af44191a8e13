"""What picks a job's worker."""

from __future__ import annotations

import pytest

from dllm_stack.queue import PoolQueue
from dllm_stack.redis import Connections
from dllm_stack.settings import Policy, RouterSettings
from tests.queue.kit import (
    BEGINNING,
    DONE,
    POOL,
    PREFIX,
    WatchedQueue,
    beat,
    dispatch_one,
    id_of,
    job,
    pass_time,
    patient,
)

WORKERS = [f"w{n}" for n in range(5)]
PROMPT = "Be brief. " * 1000


async def pool(connections: Connections, *policies: Policy) -> PoolQueue:
    queue = WatchedQueue(connections, POOL, patient(), RouterSettings(policies=list(policies)))
    for worker in WORKERS:
        await beat(queue, worker, slots=100)
    return queue


async def worker_of(queue: PoolQueue, number: int, *, ended: bool = True, **fields: str | int) -> str:
    """Where this job goes to."""
    await queue.admit(job(number, **fields))  # type: ignore[arg-type]
    dispatched = await dispatch_one(queue)
    if ended:
        await queue.finish(dispatched.worker, dispatched.job_id, 1, BEGINNING, DONE)
    return dispatched.worker


async def test_jobs_of_a_session_go_to_one_worker(connections: Connections) -> None:
    queue = await pool(connections, "session")
    first = await worker_of(queue, 0, session="s")
    assert {await worker_of(queue, n, session="s") for n in range(1, 20)} == {first}
    others = {await worker_of(queue, n, session="s", tenant="other") for n in range(20, 40)}
    assert len(others) == 1
    assert len({await worker_of(queue, n) for n in range(40, 80)}) > 1

    await beat(queue, first, slots=0)
    second = await worker_of(queue, 80, session="s")
    assert second != first
    await beat(queue, first, slots=100)
    assert await worker_of(queue, 81, session="s") == second


async def test_a_prompt_goes_where_the_longest_beginning_of_it_went(connections: Connections) -> None:
    queue = await pool(connections, "prefix")
    short = await worker_of(queue, 0, text=PROMPT[:2000])
    await beat(queue, short, slots=0)
    long = await worker_of(queue, 1, text=PROMPT)
    assert long != short
    await beat(queue, short, slots=100)
    for number in range(2, 20):
        assert await worker_of(queue, number, text=PROMPT + "And then?") == long
    await beat(queue, long, slots=0)
    for number in range(20, 40):
        assert await worker_of(queue, number, text=PROMPT[:3000] + "?") == short
    assert len({await worker_of(queue, n, text=f"{n}" * 2000) for n in range(50, 90)}) > 1


async def test_a_worker_forgets_a_beginning_after_a_time(connections: Connections) -> None:
    queue = await pool(connections, "prefix")
    old = await worker_of(queue, 0, text=PROMPT)
    await pass_time(connections, 601)
    for worker in WORKERS:
        await beat(queue, worker, slots=int(worker != old))
    new = await worker_of(queue, 1, text=PROMPT)
    await beat(queue, old, slots=100)
    assert {await worker_of(queue, n, text=PROMPT) for n in range(2, 20)} == {new}


async def test_a_job_goes_where_the_fewest_tokens_run(connections: Connections) -> None:
    queue = await pool(connections, "least_tokens")
    first = [await worker_of(queue, n, ended=False, max_tokens=100 + n) for n in range(len(WORKERS))]
    assert sorted(first) == WORKERS
    second = [await worker_of(queue, 10 + n, ended=False, max_tokens=100 - n) for n in range(len(WORKERS))]
    assert second == first  # that of the first job has the fewest, and so on
    loads = {status.card.id: status.load for status in await queue.workers()}
    assert {loads[worker] for worker in first} == {200}
    await queue.finish(first[3], id_of(13), 1, BEGINNING, DONE)
    assert await worker_of(queue, 20) == first[3]


async def test_without_a_reason_any_worker_will_do(connections: Connections) -> None:
    queue = await pool(connections)
    assert {await worker_of(queue, n, session="s", text=PROMPT) for n in range(100)} == set(WORKERS)


@pytest.mark.parametrize("first", ["session", "prefix"])
async def test_the_first_policy_narrows_the_choice_of_the_next(
    connections: Connections, first: Policy
) -> None:
    last: Policy = "prefix" if first == "session" else "session"
    queue = await pool(connections, first, last, "least_tokens")
    of_session = await worker_of(queue, 0, ended=False, session="s")
    await beat(queue, of_session, slots=0)
    of_prefix = await worker_of(queue, 1, text=PROMPT)
    await beat(queue, of_session, slots=100)
    chosen = await worker_of(queue, 2, session="s", text=PROMPT)
    assert chosen == (of_session if first == "session" else of_prefix)


@pytest.mark.parametrize("policy", ["session", "prefix"])
async def test_a_job_is_tried_again_somewhere_else(connections: Connections, policy: Policy) -> None:
    queue = await pool(connections, policy)
    await queue.admit(job(1, session="s", text=PROMPT))
    first = await dispatch_one(queue)
    await queue.release(first.worker, first.job_id, 1, counts=True)
    second = await dispatch_one(queue)
    assert second.worker != first.worker
    for worker in set(WORKERS) - {second.worker}:
        await queue.worker_leave(worker)
    await queue.release(second.worker, second.job_id, 2, counts=True)
    assert (await dispatch_one(queue)).worker == second.worker  # where else


async def test_a_beginning_is_not_worth_waiting_for(connections: Connections) -> None:
    queue = await pool(connections, "prefix", "least_tokens")
    common = "Be brief. " * 110
    used = {
        await worker_of(queue, n, ended=False, text=f"{common} Question {n}?") for n in range(len(WORKERS))
    }
    assert used == set(WORKERS)


async def test_thousands_of_free_workers(connections: Connections) -> None:
    queue = WatchedQueue(connections, POOL, patient())
    await beat(queue, slots=0)
    await queue.admit(job(1))
    names = [f"w{n}" for n in range(10_000)]
    await connections.commands.zadd(PREFIX + "free", dict.fromkeys(names, 1))
    await connections.commands.zadd(PREFIX + "workers", dict.fromkeys(names, 10**13))
    await connections.commands.zadd(PREFIX + "load", dict.fromkeys(["w", *names[:-1]], 5))
    assert (await dispatch_one(queue)).worker == names[-1]
