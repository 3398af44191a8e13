"""A gateway on uvloop, a fake worker, and a real Valkey under both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

import pytest
import pytest_asyncio
import uvloop

from dllm_stack.decoding import Decision
from dllm_stack.messages import DecodingCard
from dllm_stack.redis import Connections
from dllm_stack.settings import GatewaySettings, QueueSettings, RedisSettings, Settings
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import RestartableRedis, Served, serving, until


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def settings(redis_settings: RedisSettings) -> Settings:
    return Settings(
        redis=redis_settings,
        queue=QueueSettings(heartbeat_s=0.1, heartbeat_ttl_s=60.0),
        gateway=GatewaySettings(max_body_bytes=100_000, reply_grace_s=1.0),
    )


@pytest.fixture
async def served(connections: Connections, settings: Settings) -> AsyncIterator[Served]:
    """A gateway on an empty database."""
    async with serving(settings) as served:
        yield served


@pytest.fixture
async def worker(connections: Connections, settings: Settings) -> AsyncIterator[FakeWorker]:
    """A worker whose runs the test drives."""
    async with FakeWorker(connections, settings.queue).working() as worker:
        yield worker


@pytest.fixture
async def answering(connections: Connections, settings: Settings) -> AsyncIterator[FakeWorker]:
    """A worker that answers by itself, at two blocks an answer, a token a character."""
    async with FakeWorker(connections, settings.queue, blocks=["Hello ", "world"]).working() as worker:
        yield worker


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(redis_settings: RedisSettings) -> AsyncIterator[tuple[Served, FakeWorker]]:
    """One gateway and one worker for a whole module, of tests that leave nothing behind. The test drives the
    runs; the model honours a temperature, and calls tools."""
    settings = Settings(redis=redis_settings, queue=QueueSettings(heartbeat_s=0.1))
    connections = Connections(redis_settings)
    await connections.commands.flushall()
    decoding = DecodingCard(
        default=Decision(algorithm="LowConfidence"),
        modes={},
        algorithms={"LowConfidence": []},
        sampling=["LowConfidence"],
    )
    worker = FakeWorker(connections, settings.queue, decoding=decoding, tools="tool_call_tags")
    async with worker.working(), serving(settings) as served:
        await until(served.gateway.catalogue.all)
        yield served, worker
    await connections.aclose()


@pytest.fixture
def no_keys_left(connections: Connections) -> Callable[[], Awaitable[bool]]:
    """Says whether Redis holds nothing of any job: what may be there is of live gateways and workers, what
    goes by itself, and empty streams."""
    lasting = {"gateways", "workers", "worker:fake-worker", "free", "set_aside"}
    redis = connections.commands

    async def check() -> bool:
        async for key in redis.scan_iter("dllm:{*"):
            if key.decode().split(":", 2)[2] in lasting or await redis.pttl(key) > 0:
                continue
            if await redis.type(key) != b"stream" or await redis.xlen(key):
                return False
        return True

    return check


@pytest.fixture
def redis() -> Iterator[RestartableRedis]:
    redis = RestartableRedis()
    yield redis
    redis.close()
