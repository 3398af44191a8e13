"""`dllm-stack queue ls` and `show`."""

from __future__ import annotations

import pytest

from dllm_stack.messages import ChatPrompt, Decoding, Job, Tier, TokenPrompt, WorkerCard
from dllm_stack.queue import START, PoolQueue, Registry
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings
from tests.operator.command_line import run
from tests.queue.kit import BEGINNING, BLOCK, FAILED, POOL, PREFIX, id_of, job, pass_time

SECRET = "what nobody else may read"


async def beat(queue: PoolQueue, worker: str, pod: str | None = None, slots: int = 2) -> None:
    card = WorkerCard(id=worker, pool=POOL, slots=slots, state="ready", pod=pod)
    await queue.worker_heartbeat(card, acked=START, held=[])


async def test_pools_workers_and_tenants(
    queue: PoolQueue, connections: Connections, redis_settings: RedisSettings
) -> None:
    await beat(queue, "a" * 32, "serving-0", slots=1)
    await queue.admit(job(1, tenant="acme", max_tokens=100))
    await queue.dispatch()
    await beat(queue, "b" * 32, slots=0)
    await queue.drain_worker("b" * 32)
    await queue.admit(job(2, tier=Tier.FLEX))
    await queue.admit(job(3))
    await pass_time(connections, 875)
    result = await run(redis_settings, "ls")
    assert (result.status, result.err) == (0, "")
    [pool] = [row for row in result.rows if row and row[0] == POOL and len(row) > 1]
    assert pool[:6] == ["tiny", "open", "2", "-", "1", "1"]
    assert pool[7:] == ["15 min", "1", "1", "2"]
    assert ["aaaaaaaa", "serving-0", "ready", "1", "1", "100", "-"] in result.rows
    assert ["bbbbbbbb", "-", "draining", "0", "0", "-", "-"] in result.rows
    assert ["acme", "-", "-", "1"] in result.rows
    assert [row[:2] for row in result.rows if row[:1] == ["default"]] == [["default", "2"]]
    assert id_of(1) not in result.out


async def test_a_worker_set_aside(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    await beat(queue, "a" * 32, "serving-0", slots=1)
    for number in range(3):
        await queue.admit(job(number))
        await queue.dispatch()
        await queue.finish("a" * 32, id_of(number), 1, BEGINNING, FAILED)
    rows = (await run(redis_settings, "ls")).rows
    [worker] = [row for row in rows if row[:1] == ["aaaaaaaa"]]
    assert worker[2].startswith("set aside, ")
    assert worker[-1] == "3"
    assert [row[-1] for row in rows if row[:1] == [POOL] and len(row) > 1] == ["1 (1 set aside)"]


async def test_the_jobs_of_one_pool(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    await beat(queue, "a" * 32, "serving-0", slots=1)
    await queue.admit(job(1))
    await queue.dispatch()
    await queue.release("a" * 32, id_of(1), 1, counts=True)
    await queue.admit(job(2, tenant="acme", timeout_s=40 * 3600))
    await queue.dispatch()
    await queue.commit("a" * 32, id_of(2), 1, BEGINNING, BLOCK)
    for number in (3, 4, 5):
        await queue.admit(job(number, tier=Tier.FLEX))
    result = await run(redis_settings, "ls", POOL, "--limit", "2")
    jobs = {row[0]: row for row in result.rows if row and row[0].startswith("0000")}
    assert list(jobs) == [id_of(2), id_of(3), id_of(4), id_of(1)]
    assert jobs[id_of(2)][1:3] == ["default", "acme"]
    assert jobs[id_of(2)][4:] == ["40 h", "1", "3", "serving-0"]
    assert jobs[id_of(3)][1:3] == ["flex", "default"]
    assert jobs[id_of(3)][4:] == ["-", "-", "-"]
    await queue.cancel(id_of(2))
    assert [id_of(2), "stopping"] in [
        row[:1] + row[4:5] for row in (await run(redis_settings, "ls", POOL)).rows
    ]
    assert (jobs[id_of(1)][1], jobs[id_of(1)][3]) == ("default", "1")
    assert result.out.count("more than these 2") == 1


async def test_no_pool_yet(connections: Connections, redis_settings: RedisSettings) -> None:
    assert await run(redis_settings, "ls") == (0, "No worker has announced a pool yet.\n", "")


async def test_an_unknown_pool(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    assert await run(redis_settings, "ls", "huge") == (1, "", "There is no pool 'huge'; there are: tiny.\n")


async def test_one_job(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    await beat(queue, "a" * 32, "serving-0")
    prompt = ChatPrompt([{"role": "user", "content": f"{SECRET}: \x1b[2J 你好"}])
    decoding = Decoding(max_tokens=100, stop=["\n"])
    asked = Job(
        id=id_of(1),
        pool=POOL,
        gateway="g",
        prompt=prompt,
        decoding=decoding,
        tenant="acme",
        timeout_s=40 * 3600,
    )
    await queue.admit(asked)
    await queue.dispatch()
    await queue.commit("a" * 32, id_of(1), 1, BEGINNING, BLOCK)
    result = await run(redis_settings, "show", id_of(1))
    said = dict(row for row in result.rows if len(row) == 2)
    assert said["state"] == "running"
    assert said["worker"] == f"serving-0 ({'a' * 32})"
    assert said["attempts"] == "1"
    assert said["committed"] == "3 tokens"
    assert said["time left"] == "40 h"
    assert said["tenant"] == "acme"
    assert said["decoding"] == r'{"max_tokens": 100, "stop": ["\n"]}'
    assert said["prompt"] == "chat of 1 messages"
    assert SECRET not in result.out

    with_prompt = await run(redis_settings, "show", id_of(1), "--prompt")
    assert f"{SECRET}: \\u001b[2J 你好" in with_prompt.out


async def test_a_dead_job(queue: PoolQueue, connections: Connections, redis_settings: RedisSettings) -> None:
    await beat(queue, "w")
    await queue.admit(Job(id=id_of(1), pool=POOL, gateway="g", prompt=TokenPrompt([5, 6])))
    await queue.dispatch()
    await queue.release("w", id_of(1), 1, counts=True)
    result = await run(redis_settings, "show", id_of(1), "--prompt")
    said = dict(row for row in result.rows if len(row) == 2)
    assert said["state"].startswith("dead: ")
    assert (said["pool"], said["attempts"], said["prompt"]) == (POOL, "1", "5 6")


async def test_an_unknown_job(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    assert await run(redis_settings, "show", "x") == (1, "", "There is no open or dead job 'x'.\n")


@pytest.mark.parametrize(
    "arguments", [["ls"], ["ls", "--watch"], ["show", "x"], ["cancel", "x"], ["pause", "x"], ["requeue-dead"]]
)
async def test_without_redis_there_is_one_line(arguments: list[str]) -> None:
    nowhere = RedisSettings(url="redis://user:password@127.0.0.1:1/0")
    status, out, err = await run(nowhere, *arguments)
    assert (status, out) == (1, "")
    assert err.startswith("Redis at redis://127.0.0.1:1/0: Error")
    assert err.count("\n") == 1


async def test_a_job_of_another_version(
    queue: PoolQueue, connections: Connections, redis_settings: RedisSettings
) -> None:
    await beat(queue, "w", slots=0)
    await queue.admit(job(1))
    await connections.commands.set(f"{PREFIX}body:{id_of(1)}", b"unreadable")
    result = await run(redis_settings, "show", id_of(1))
    said = dict(row for row in result.rows if len(row) == 2)
    assert said["state"] == "waiting"
    assert said["request"].startswith("cannot be read")


async def test_a_dead_letter_that_somebody_else_wrote(
    queue: PoolQueue, connections: Connections, redis_settings: RedisSettings
) -> None:
    await beat(queue, "w")
    await queue.admit(job(1, tenant="acme"))
    await queue.dispatch()
    await queue.release("w", id_of(1), 1, counts=True)
    await connections.commands.xadd(
        f"{PREFIX}dead", {"foreign": "letter", "reason": "\x1b[2J", "id": b"\xff"}
    )
    await connections.commands.xadd(f"{PREFIX}dead", {"foreign": "letter", "attempts": "many"})
    result = await run(redis_settings, "ls", POOL)
    assert (result.status, result.err) == (0, "")
    assert [row[:2] for row in result.rows if row[:1] == [id_of(1)]] == [[id_of(1), "acme"]]
    assert [row[0] for row in result.rows if row[-1:] == [r"\x1b[2J"]] == ["\ufffd"]
    assert len([row for row in result.rows if row[:2] == ["-", "-"]]) == 1
    assert (await run(redis_settings, "show", id_of(1))).status == 0


async def test_a_pool_with_a_key_of_another_type_does_not_hide_the_others(
    queue: PoolQueue, connections: Connections, redis_settings: RedisSettings
) -> None:
    await beat(queue, "w")
    await Registry(connections).publish("broken", None)
    await connections.commands.set("dllm:{broken}:dead", "a string")
    result = await run(redis_settings, "ls")
    assert (result.status, result.err) == (0, "")
    assert "broken cannot be read: WRONGTYPE" in result.out
    assert [row[0] for row in result.rows if row[1:2] == ["open"]] == [POOL]
