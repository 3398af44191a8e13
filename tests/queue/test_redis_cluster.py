"""A cluster in which slots move and masters fall silent."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest

from dllm_stack.redis import BLOCK_S, Connections, RedisError, Script
from dllm_stack.settings import RedisSettings
from tests.queue.servers import Cluster
from tests.waiting import eventually

PREFIX = "dllm:{p}:"
COUNT = "return redis.call('INCR', KEYS[1] .. 'count')"  # a key not declared, as in the queue's scripts


@pytest.fixture
async def connections(cluster: Cluster) -> AsyncIterator[Connections]:
    connections = Connections(RedisSettings(url=cluster.url, timeout_s=60))
    await connections.commands.flushall()
    yield connections
    await connections.aclose()


def counter(connections: Connections) -> Callable[[], Any]:
    script = Script("count", COUNT, sha1(COUNT.encode()).hexdigest())

    async def count() -> int:
        return int(await connections.run(script, PREFIX, []))

    return count


async def test_no_call_fails_when_a_slot_moves_at_once(cluster: Cluster, connections: Connections) -> None:
    source = cluster.node_of(PREFIX)
    target = next(node for node in cluster.nodes if node is not source)
    count, calls, over = counter(connections), 0, asyncio.Event()

    async def call() -> None:
        nonlocal calls
        while not over.is_set():
            await count()
            calls += 1

    async def sleep() -> Any:
        async with connections.limit(block_s=10):
            return await connections.blocking.blpop([PREFIX + "wake"], timeout=10)

    asleep = asyncio.create_task(sleep())
    callers = [asyncio.create_task(call()) for _ in range(8)]
    await eventually(lambda: _is(calls > 100))
    slot = source.client.execute_command("CLUSTER KEYSLOT", PREFIX)
    target_id = target.client.execute_command("CLUSTER MYID")
    source.client.execute_command("CLUSTER MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target_id)
    await eventually(lambda: _is(cluster.node_of(PREFIX) is target))
    before = calls
    await eventually(lambda: _is(calls > before + 100))
    over.set()
    await asyncio.gather(*callers)
    assert await count() == calls + 1
    async with connections.limit():
        await connections.commands.lpush(PREFIX + "wake", "1")
    assert (await asleep)[1] == b"1"


async def test_a_slot_that_is_moved_key_by_key_is_away_meanwhile(
    cluster: Cluster, connections: Connections
) -> None:
    count = counter(connections)
    assert await count() == 1
    source = cluster.node_of(PREFIX)
    target = next(node for node in cluster.nodes if node is not source)
    slot = source.client.execute_command("CLUSTER KEYSLOT", PREFIX)
    source_id, target_id = (node.client.execute_command("CLUSTER MYID") for node in (source, target))
    target.client.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", source_id)
    source.client.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", target_id)
    with pytest.raises(RedisError, match="being moved"):
        await count()
    keys = source.client.execute_command("CLUSTER GETKEYSINSLOT", slot, 10)
    source.client.migrate("127.0.0.1", target.port, keys, 0, 1000)
    with pytest.raises(RedisError, match="being moved"):
        await count()
    for node in cluster.nodes:
        node.client.execute_command("CLUSTER SETSLOT", slot, "NODE", target_id)
    assert await count() == 2


async def test_scripts_are_known_everywhere(cluster: Cluster, connections: Connections) -> None:
    count = counter(connections)
    assert await count() == 1
    for node in cluster.nodes:
        node.client.script_flush()
    assert await count() == 2


async def test_a_master_that_falls_silent_is_gone_round(
    tmp_path: Path, record: Callable[[str], None]
) -> None:
    with Cluster(tmp_path, replica=True) as cluster:
        silent, replica = cluster.nodes[0], cluster.nodes[3]
        assert cluster.node_of("dllm:{f}:") is silent
        connections = Connections(RedisSettings(url=cluster.url, timeout_s=0.5))

        async def served() -> bool:
            try:
                async with connections.limit():
                    return bool(await connections.commands.incr("dllm:{f}:count"))
            except RedisError:
                return False

        async def read() -> list[Any]:
            """Begun before, it is not to wait for ever."""
            async with connections.limit(block_s=BLOCK_S):
                return list(
                    await connections.blocking.xread({"dllm:{f}:s": "0-0"}, block=int(BLOCK_S * 1000))
                )

        async def reads() -> bool:
            try:
                return await read() == []
            except RedisError:
                return False

        await eventually(served)
        await eventually(reads)
        silent.process.send_signal(signal.SIGSTOP)
        with pytest.raises(RedisError):
            await read()
        took_s = await eventually(served)
        assert replica.client.info("replication")["role"] == "master"
        await eventually(reads)
        record(f"a cluster's master falls silent: served again after {took_s + BLOCK_S + 0.5:.1f} s")
        await connections.aclose()


async def _is(condition: bool) -> bool:
    return condition
