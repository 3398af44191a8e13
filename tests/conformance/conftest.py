"""A gateway with a fake worker, as in tests/gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from dllm_stack.redis import Connections
from dllm_stack.settings import GatewaySettings, QueueSettings, RedisSettings, Settings
from tests.gateway.served import Served, serving


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def settings(redis_settings: RedisSettings) -> Settings:
    return Settings(
        redis=redis_settings,
        queue=QueueSettings(heartbeat_s=0.5, heartbeat_ttl_s=60.0),
        gateway=GatewaySettings(max_body_bytes=100_000),
    )


@pytest.fixture
async def served(connections: Connections, settings: Settings) -> AsyncIterator[Served]:
    """A gateway on an empty database."""
    async with serving(settings) as served:
        yield served
