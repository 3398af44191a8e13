"""A process of the stack dies by kill -9 while requests wait and run: each request ends once."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

import aiohttp
import psutil
import pytest

from dllm_stack.redis import Connections
from loadtest.local_stack import LocalStack
from tests.stack.conditions import ended, no_jobs, running
from tests.waiting import eventually

REQUESTS = 20
TOKENS = 96


async def ask(http: aiohttp.ClientSession, url: str, model: str, number: int) -> str:
    """Sends a request, every other one streamed, and says how it ended."""
    stream = number % 2 == 0
    body = {
        "model": model,
        "messages": [{"role": "user", "content": f"Request {number}: count."}],
        "max_tokens": TOKENS,
        "stream": stream,
    }
    try:
        async with http.post(f"{url}/v1/chat/completions", json=body) as response:
            text = await response.text()
    except TimeoutError:
        return "hung"
    if error := re.search(r'"code": ?"(\w+)"', text):
        return error[1]
    return "answered" if not stream or text.rstrip().endswith("data: [DONE]") else "cut"


def victim(stack: LocalStack, name: str) -> psutil.Process:
    return stack.engine() if name == "engine" else stack.service(name)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["router", "worker", "engine", "valkey"])
async def test_each_request_ends_once_when_a_process_is_killed(
    stack: LocalStack,
    http: aiohttp.ClientSession,
    redis: Connections,
    model: str,
    name: str,
    record: Callable[[str], None],
) -> None:
    before = await ended(http, stack)
    requests = [
        asyncio.create_task(ask(http, stack.gateway_url, model, number)) for number in range(REQUESTS)
    ]

    async def some_run() -> bool:
        return await running(redis) > 0

    await eventually(some_run)
    victim(stack, name).kill()
    killed = time.monotonic()
    ends = Counter(await asyncio.gather(*requests))
    record(f"kill -9 of the {name}: {dict(ends)}, the last after {time.monotonic() - killed:.0f} s")

    # Only a stream that had sent a part may fail; everything else is answered after the restart, unless
    # it came while there was no queue.
    assert set(ends) <= {"answered", "worker_lost"} | ({"queue_unavailable"} if name == "valkey" else set())
    assert ends["worker_lost"] <= REQUESTS // 2
    assert ends["answered"] > 0
    if name == "router":
        assert ends["answered"] == REQUESTS
    assert await ended(http, stack) - before == REQUESTS
    await eventually(partial(no_jobs, redis))
