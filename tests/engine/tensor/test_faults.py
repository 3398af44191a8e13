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
from tests.stack.conditions import no_jobs, running, runs
from tests.stack.test_faults import ask
from tests.waiting import eventually
from tests.worker.conftest import engine_children

pytestmark = [
    pytest.mark.skipif("DLLM_TEST_TENSOR" not in os.environ, reason="takes minutes: make show-tensor"),
    pytest.mark.timeout(12 * START_S),
]
MODEL = "dllm-demo"
REQUESTS = 12
STALL_S = 10
RANKS = 2
PATIENCE_S = 3 * START_S  # for an engine that loads again on a busy machine


@pytest.fixture(scope="module")
def stack() -> Iterator[LocalStack]:
    settings = {
        "DLLM_WORKER__ENGINE_ARGS": f'["--tp-size", "{RANKS}"]',
        "DLLM_WORKER__STALL_S": str(STALL_S),
        "DLLM_GATEWAY__REQUEST_TIMEOUT_S": str(PATIENCE_S),
    }
    with LocalStack(**settings) as stack:
        yield stack


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as http:
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


@pytest.fixture(scope="module")
def undisturbed(stack: LocalStack) -> list[str]:
    """The answer to each request."""

    async def ask_once() -> tuple[Counter[str], list[str]]:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as http:
            return await ask_all(http, stack)

    ways, texts = asyncio.run(ask_once())
    assert ways == {"answered": REQUESTS}
    return texts


@pytest.mark.parametrize(
    ("what", "busy"),
    [("kill", True), ("suspend", True), ("suspend", False)],
    ids=["killed", "stopped", "stopped while idle"],
)
@pytest.mark.parametrize("number", range(RANKS), ids=["rank 0", "rank 1"])
async def test_a_rank_dies_or_hangs(
    stack: LocalStack,
    http: aiohttp.ClientSession,
    redis: Connections,
    undisturbed: list[str],
    record: Callable[[str], None],
    request: pytest.FixtureRequest,
    what: str,
    busy: bool,
    number: int,
) -> None:
    await asyncio.to_thread(stack.wait_for_workers)
    engine = stack.engine()
    rank = ranks_of(engine)[number]

    async def some_run() -> bool:
        return await running(redis) > 0

    async def is_gone() -> bool:
        return not runs(engine)

    async def none_left() -> bool:
        return await no_jobs(redis)

    requests = asyncio.create_task(ask_all(http, stack)) if busy else None
    if busy:
        await eventually(some_run, within_s=PATIENCE_S)
    getattr(rank, what)()
    began = time.monotonic()
    requests = requests or asyncio.create_task(ask_all(http, stack))
    gone_s = await eventually(is_gone, within_s=PATIENCE_S)
    ways, texts = await requests
    same = sum(a == b for a, b in zip(texts, undisturbed, strict=True))
    answered = ", ".join(f"{count} {how}" for how, count in ways.items())
    record(
        f"{request.node.callspec.id}: {answered}, {same} as undisturbed; the engine was gone after "
        f"{gone_s:.1f} s, the last answer came after {time.monotonic() - began:.0f} s"
    )
    assert ways == {"answered": REQUESTS}
    assert texts == undisturbed
    await eventually(none_left)
