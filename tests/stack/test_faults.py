"""A process of the stack dies by kill -9 while requests wait and run: each is answered as if undisturbed."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import NamedTuple

import aiohttp
import psutil
import pytest

from dllm_stack.redis import Connections
from loadtest.local_stack import LocalStack
from tests.stack.conditions import ended, no_jobs, running
from tests.waiting import eventually

REQUESTS = 20
TOKENS = 96


class Ended(NamedTuple):
    how: str
    text: str


async def ask(http: aiohttp.ClientSession, url: str, model: str, number: int) -> Ended:
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
        return Ended("hung", "")
    if error := re.search(r'"code": ?"(\w+)"', text):
        return Ended(error[1], "")
    if not stream:
        return Ended("answered", json.loads(text)["choices"][0]["message"]["content"])
    *events, last = [event for event in text.split("\n\n") if event.startswith("data:")]
    deltas = [json.loads(event.removeprefix("data: "))["choices"][0]["delta"] for event in events]
    content = "".join(delta.get("content", "") for delta in deltas)
    return Ended("answered" if last == "data: [DONE]" else "cut", content)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """Has the patience for an engine that loads again on a busy machine."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=400)) as http:
        yield http


@pytest.fixture(scope="module")
def undisturbed() -> dict[int, str]:
    """The answer to each request, once it is known."""
    return {}


async def ask_all(http: aiohttp.ClientSession, url: str, model: str) -> list[Ended]:
    return await asyncio.gather(*(ask(http, url, model, number) for number in range(REQUESTS)))


def victim(stack: LocalStack, name: str) -> psutil.Process:
    return stack.engine() if name == "engine" else stack.service(name)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["router", "worker", "engine", "valkey"])
async def test_each_request_is_answered_though_a_process_is_killed(
    stack: LocalStack,
    http: aiohttp.ClientSession,
    redis: Connections,
    model: str,
    name: str,
    undisturbed: dict[int, str],
    record: Callable[[str], None],
) -> None:
    if not undisturbed:
        undisturbed |= {n: each.text for n, each in enumerate(await ask_all(http, stack.gateway_url, model))}
        assert all(undisturbed.values())
    before = await ended(http, stack)
    requests = asyncio.create_task(ask_all(http, stack.gateway_url, model))

    async def some_run() -> bool:
        return await running(redis) > 0

    await eventually(some_run)
    victim(stack, name).kill()
    killed = time.monotonic()
    ends = await requests
    ways = Counter(each.how for each in ends)
    record(f"kill -9 of the {name}: {dict(ways)}, the last after {time.monotonic() - killed:.0f} s")

    # A request may be refused that came while there was no queue; all others are answered.
    assert set(ways) <= {"answered"} | ({"queue_unavailable"} if name == "valkey" else set())
    assert ways["answered"] > 0
    wrong = [n for n, each in enumerate(ends) if each.how == "answered" and each.text != undisturbed[n]]
    assert wrong == [], "answered otherwise than undisturbed"

    async def all_are_counted() -> bool:
        return await ended(http, stack) - before == REQUESTS

    await eventually(all_are_counted)
    await eventually(partial(no_jobs, redis))
