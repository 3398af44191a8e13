"""A pool on a real Valkey."""

from __future__ import annotations

import pytest

from dllm_stack.queue import PoolQueue, Registry
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings
from tests.queue.kit import POOL, WatchedQueue


@pytest.fixture
async def queue(connections: Connections) -> PoolQueue:
    await Registry(connections).publish(POOL, None)
    return WatchedQueue(connections, POOL, QueueSettings(heartbeat_ttl_s=1000, breaker_s=300, max_attempts=1))
