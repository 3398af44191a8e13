"""Twice as many requests as the queue holds: the surplus is refused at once, the rest is answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import aiohttp
import pytest

from loadtest.local_stack import LocalStack
from tests.stack.conditions import QUEUE_BOUND, ended
from tests.waiting import eventually

REQUESTS = 2 * QUEUE_BOUND


@pytest.mark.timeout(400)
async def test_the_surplus_gets_429_at_once_and_the_rest_is_answered(
    stack: LocalStack, model: str, record: Callable[[str], None]
) -> None:
    async def ask(number: int) -> tuple[int, float, str | None]:
        body = {"model": model, "messages": [{"role": "user", "content": f"What is {number} + 1?"}]}
        began = time.monotonic()
        async with http.post(f"{stack.gateway_url}/v1/chat/completions", json=body) as response:
            answer = await response.json()
            assert ("choices" in answer) == (response.status == 200)
            return response.status, time.monotonic() - began, response.headers.get("Retry-After")

    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
        before = await ended(http, stack)
        results = await asyncio.gather(*(ask(number) for number in range(REQUESTS)))

        async def all_are_counted() -> bool:
            return await ended(http, stack) - before == REQUESTS

        await eventually(all_are_counted)

    answered = [seconds for status, seconds, _ in results if status == 200]
    refused = [(seconds, retry_after) for status, seconds, retry_after in results if status == 429]
    assert len(answered) + len(refused) == REQUESTS
    assert len(answered) >= QUEUE_BOUND
    assert refused
    assert all(retry_after and 1 <= int(retry_after) <= 30 for _, retry_after in refused)
    # At once: every refusal comes before most of the answers.
    slowest_refusal = max(seconds for seconds, _ in refused)
    assert slowest_refusal < sorted(answered)[len(answered) // 2]
    record(
        f"{REQUESTS} requests, queue bound {QUEUE_BOUND}: {len(answered)} answered, {len(refused)} refused "
        f"within {slowest_refusal:.2f} s, the last answer after {max(answered):.1f} s"
    )
