"""A worker of an autoregressive model."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from tests.gateway.autoregressive.kit import ALL
from tests.gateway.fake_worker import FakeWorker


@pytest.fixture
async def worker(connections: Connections, settings: Settings) -> AsyncIterator[FakeWorker]:
    """Its model honours everything."""
    async with FakeWorker(connections, settings.queue, autoregressive=ALL).working() as worker:
        yield worker
