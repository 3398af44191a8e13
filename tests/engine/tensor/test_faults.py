"""A rank of two dies or hangs under `dllm-stack up`: its engine is started again, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator

import aiohttp
import psutil
import pytest

from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings
from loadtest.local_stack import START_S, LocalStack
from tests.stack.conditions import no_jobs, running
from tests.stack.test_faults import ask
from tests.waiting import eventually
from tests.worker.conftest import engine_children

pytestmark = [
    pytest.mark.skipif("DLLM_TEST_TENSOR" not in os.environ, reason="takes minutes: make show-tensor"),
    pytest.mark.timeout(5 * START_S),
]
MODEL = "dllm-demo"
REQUESTS = 12
STALL_S = 10
RANKS = 2


@pytest.fixture(scope="module")
def stack() -> Iterator[LocalStack]:
    arguments = f'["--tp-size", "{RANKS}"]'
    with LocalStack(DLLM_WORKER__ENGINE_ARGS=arguments, DLLM_WORKER__STALL_S=str(STALL_S)) as stack:
        yield stack


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """Has the patience for engines that load again on a busy machine."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=START_S)) as http:
        yield http


@pytest.fixture
async def redis(stack: LocalStack) -> AsyncIterator[Connections]:
    connections = Connections(RedisSettings(url=stack.redis_url))
    yield connections
    await connections.aclose()


async def ask_all(http: aiohttp.ClientSession, stack: LocalStack) -> tuple[Counter[str], list[str]]:
    ends = await asyncio.gather(*(ask(http, stack.gateway_url, MODEL, n) for n in range(REQUESTS)))
    return Counter(each.how for each in ends), [each.text for each in ends]


def ranks_of(engine: psutil.Process) -> list[psutil.Process]:
    return engine_children(engine)[:RANKS]


async def test_a_rank_dies_or_hangs(
    stack: LocalStack, http: aiohttp.ClientSession, redis: Connections, record: Callable[[str], None]
) -> None:
    ways, undisturbed = await ask_all(http, stack)
    assert ways == {"answered": REQUESTS}
    record(f"an engine of {RANKS} ranks, {REQUESTS} requests to it, half of them streams:")
    record("| | answers | as undisturbed | engine gone after, s | ready again after, s |")
    record("|---|---|---|---|---|")
    for what, number, busy in [
        ("kill -9 of rank 1", 1, True),
        ("kill -9 of rank 0", 0, True),
        ("rank 1 stopped (SIGSTOP)", 1, True),
        ("rank 0 stopped (SIGSTOP)", 0, True),
        ("rank 1 stopped, then asked", 1, False),
    ]:
        stack.wait_for_workers()
        engine = stack.engine()
        rank = ranks_of(engine)[number]
        requests = asyncio.create_task(ask_all(http, stack)) if busy else None

        async def some_run() -> bool:
            return await running(redis) > 0

        if busy:
            await eventually(some_run, within_s=START_S)
        (rank.kill if "kill" in what else rank.suspend)()
        began = time.monotonic()

        async def is_gone(engine: psutil.Process = engine) -> bool:
            return not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE

        requests = requests or asyncio.create_task(ask_all(http, stack))
        gone_s = await eventually(is_gone, within_s=START_S)
        ways, texts = await requests
        await asyncio.to_thread(stack.wait_for_workers)
        same = sum(a == b for a, b in zip(texts, undisturbed, strict=True))
        answered = ", ".join(f"{count} {how}" for how, count in ways.items())
        record(f"| {what} | {answered} | {same} | {gone_s:.1f} | {time.monotonic() - began:.0f} |")
        assert ways == {"answered": REQUESTS}
        assert texts == undisturbed

        async def none_left() -> bool:
            return await no_jobs(redis)

        await eventually(none_left)
