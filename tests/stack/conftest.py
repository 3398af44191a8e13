"""One whole stack with a real engine for every test below: `dllm-stack up` as a user starts it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from openai import AsyncOpenAI

from dllm_stack.local.service import listen
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings
from loadtest.local_stack import LocalStack
from tests.stack.conditions import AUTOREGRESSIVE, DIFFUSION, QUEUE_BOUND, runs


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test's time limit is without the start of the stack, which the first one waits for: that has its own,
    `local_stack.START_S`."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            marker = item.get_closest_marker("timeout")
            limit_s = marker.args[0] if marker else float(config.getini("timeout"))
            item.add_marker(pytest.mark.timeout(limit_s, func_only=True), append=False)


@pytest.fixture(scope="session")
def running_stack() -> Iterator[LocalStack]:
    """Runs until the last test, then must end by Ctrl-C and leave nothing behind."""
    models = json.dumps([DIFFUSION, AUTOREGRESSIVE])
    with LocalStack(DLLM_QUEUE__MAX_WAITING_JOBS=str(QUEUE_BOUND), DLLM_UP__MODELS=models) as stack:
        yield stack
        processes = stack.processes()
        assert stack.stop() == 0, stack.output()
        left = [name for name, process in processes.items() if runs(process)]
        assert left == [], f"still running after Ctrl-C: {left}"
        listen("127.0.0.1", stack.port).close()


@pytest.fixture
def stack(running_stack: LocalStack) -> LocalStack:
    """Its workers are ready, whatever the test before has killed."""
    running_stack.wait_for_workers()
    return running_stack


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=280)) as session:
        yield session


@pytest.fixture
async def client(stack: LocalStack) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{stack.gateway_url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def model(stack: LocalStack) -> str:
    return DIFFUSION


@pytest.fixture
def autoregressive(stack: LocalStack) -> str:
    """The other model."""
    return AUTOREGRESSIVE


@pytest.fixture
async def redis(stack: LocalStack) -> AsyncIterator[Connections]:
    connections = Connections(RedisSettings(url=stack.redis_url, timeout_s=60))
    yield connections
    await connections.aclose()
