"""`dllm-stack queue cancel`, `pause`, `resume` and `drain`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from dllm_stack.messages import ModelCard, WorkerCard
from dllm_stack.outcomes import ErrorCode, Outcome
from dllm_stack.queue import START, PoolQueue, Registry
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings, RedisSettings, Settings
from tests.gateway.served import Served, serving
from tests.operator.command_line import run
from tests.queue.kit import BEGINNING, BLOCK, POOL, PREFIX, beat, commands, ends, id_of, job
from tests.waiting import eventually


async def test_a_cancelled_job_ends_and_its_client_is_told(
    queue: PoolQueue, redis_settings: RedisSettings
) -> None:
    await beat(queue)
    await queue.admit(job(1))
    await queue.admit(job(2))
    await queue.dispatch()
    for number in (1, 2):
        status, out, err = await run(redis_settings, "cancel", id_of(number))
        assert (status, err) == (0, "")
        assert out == f"{id_of(number)} is cancelled; its client has been told.\n"
    told = Outcome.CANCELLED, ErrorCode.CANCELLED
    assert await ends(queue) == [(1, *told), (2, *told)]
    assert await queue.waiting(10) == []
    assert await run(redis_settings, "cancel", id_of(1)) == (1, "", f"Nobody waits for a job {id_of(1)!r}.\n")


async def test_what_the_clients_of_a_gateway_are_told(
    connections: Connections, redis_settings: RedisSettings
) -> None:
    settings = Settings(redis=redis_settings, queue=QueueSettings(heartbeat_s=0.1, heartbeat_ttl_s=1000))
    queue = PoolQueue(connections, POOL, settings.queue)
    card = ModelCard(name=POOL, context_length=4096, block_size=32, algorithm=None, created=0)
    await Registry(connections).publish(POOL, card)
    async with serving(settings) as served:
        await eventually(lambda: lists_the_model(served))
        body = {"model": POOL, "prompt": "Hi"}
        await beat(queue, slots=0)

        whole = asyncio.create_task(served.http.post("/v1/completions", json=body))
        await eventually(lambda: waits(queue))
        [waiting] = await queue.waiting(1)
        await run(redis_settings, "cancel", waiting.id)
        answer = await whole
        error = {"message": "An operator cancelled this request.", "type": "cancelled_error", "param": None}
        assert (answer.status_code, answer.json()) == (499, {"error": {**error, "code": "cancelled"}})

        begun = asyncio.Event()
        stream = asyncio.create_task(read(served, body, begun))
        await eventually(lambda: waits(queue))
        await beat(queue)
        [running] = await queue.dispatch()
        await queue.commit("w", running.job_id, running.attempt, BEGINNING, BLOCK)
        await begun.wait()
        await run(redis_settings, "cancel", running.job_id)
        *_, last = await stream
        assert json.loads(last.removeprefix("data: ")) == {"error": {**error, "code": "cancelled"}}
        assert await served.outcomes() == {("completions", POOL, "cancelled", "cancelled"): 2}


async def read(served: Served, body: dict[str, Any], begun: asyncio.Event) -> list[str]:
    """The lines of a stream; `begun` is set after the first."""
    lines = []
    async with served.http.stream("POST", "/v1/completions", json={**body, "stream": True}) as response:
        async for line in response.aiter_lines():
            begun.set()
            lines += [line] if line else []
    return lines


async def waits(queue: PoolQueue) -> bool:
    return bool(await queue.waiting(1))


async def lists_the_model(served: Served) -> bool:
    return bool((await served.http.get("/v1/models")).json()["data"])


async def test_a_drained_worker_gets_no_more_jobs(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    for worker, pod in (("a1", "serving-0"), ("a2", "serving-1"), ("b1", None)):
        card = WorkerCard(id=worker, pool=POOL, slots=1, state="ready", pod=pod)
        await queue.worker_heartbeat(card, acked=START, held=[])
    by_pod = await run(redis_settings, "drain", "serving-0")
    assert by_pod == (0, "Worker a1 in pod serving-0 gets no more jobs; it still runs 0.\n", "")
    by_id = await run(redis_settings, "drain", "b")
    assert by_id == (0, "Worker b1 gets no more jobs; it still runs 0.\n", "")
    assert [worker.card.id for worker in await queue.workers() if worker.draining] == ["a1", "b1"]
    assert await run(redis_settings, "drain", "a") == (1, "", "'a' is more than one worker: a1, a2.\n")
    assert await run(redis_settings, "drain", "c") == (1, "", "There is no pool and no live worker 'c'.\n")
    await queue.admit(job(1))
    await queue.admit(job(2))
    assert [dispatched.worker for dispatched in await queue.dispatch()] == ["a2"]
    running = await run(redis_settings, "drain", "a2")
    assert running.out == "Worker a2 in pod serving-1 gets no more jobs; it still runs 1.\n"
    assert len(await commands(queue, "a2")) == 1


async def test_a_name_left_empty_drains_nobody(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    await beat(queue)
    assert await run(redis_settings, "drain", "") == (1, "", "There is no pool and no live worker ''.\n")
    assert [worker.draining for worker in await queue.workers()] == [False]


async def test_a_worker_of_another_version_is_drained_too(
    queue: PoolQueue, connections: Connections, redis_settings: RedisSettings
) -> None:
    await beat(queue, "w1")
    await connections.commands.hset(f"{PREFIX}worker:w1", "card", b"unreadable")
    assert (await run(redis_settings, "drain", "w1")).status == 0
    assert ["w1", "-", "draining", "0", "1", "-", "-"] in (await run(redis_settings, "ls")).rows


async def test_a_pool_is_paused_drained_and_resumed(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    async def state() -> tuple[bool, bool]:
        depth = await queue.depth()
        return depth.paused, depth.draining

    await beat(queue, slots=1)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.admit(job(2))
    paused = await run(redis_settings, "pause", POOL)
    assert paused == (0, "Pool tiny starts no more jobs; running: 1, waiting: 1.\n", "")
    assert await state() == (True, False)
    drained = await run(redis_settings, "drain", POOL)
    assert drained == (0, "Pool tiny takes no new jobs; running: 1, waiting: 1.\n", "")
    assert await state() == (False, True)
    await run(redis_settings, "pause", POOL)
    rows = (await run(redis_settings, "ls")).rows
    assert [row[1] for row in rows if row[:1] == [POOL] and len(row) > 1] == ["draining, paused"]
    resumed = await run(redis_settings, "resume", POOL)
    assert resumed == (0, "Pool tiny takes jobs and runs them.\n", "")
    assert await state() == (False, False)


async def test_a_worker_is_paused_and_resumed(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    card = WorkerCard(id="a1", pool=POOL, slots=1, state="ready", pod="serving-0")
    await queue.worker_heartbeat(card, acked=START, held=[])
    paused = await run(redis_settings, "pause", "serving-0")
    out = "Worker a1 in pod serving-0 gets no more jobs until it is resumed; it still runs 0.\n"
    assert paused == (0, out, "")
    assert ["a1", "serving-0", "paused", "0", "1", "-", "-"] in (await run(redis_settings, "ls")).rows
    resumed = await run(redis_settings, "resume", "a")
    assert resumed == (0, "Worker a1 in pod serving-0 gets jobs again.\n", "")
    assert [worker.paused for worker in await queue.workers()] == [False]
    await run(redis_settings, "drain", "a1")
    refused = await run(redis_settings, "resume", "a1")
    err = "Worker a1 in pod serving-0 was told to drain: only starting it again undoes that.\n"
    assert refused == (1, "", err)


async def test_a_pool_comes_before_a_worker_of_its_name(
    queue: PoolQueue, redis_settings: RedisSettings
) -> None:
    await beat(queue, POOL)
    assert (await run(redis_settings, "pause", POOL)).out.startswith("Pool tiny")
    assert [worker.paused for worker in await queue.workers()] == [False]
