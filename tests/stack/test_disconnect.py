"""A client that disappears: its job leaves the queue, or the engine stops and its slot is free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import aiohttp

from dllm_stack.redis import Connections
from loadtest.local_stack import LocalStack
from tests.stack.conditions import engine_tokens, jobs, no_jobs, running
from tests.waiting import eventually


def chat(model: str, *, stream: bool) -> dict[str, object]:
    return {
        "model": model,
        "messages": [{"role": "user", "content": "Count to a very large number."}],
        "max_tokens": 1500,
        "ignore_eos": True,
        "dllm": {"threshold": 1},  # a token a forward, so that it is under way however late somebody looks
        "stream": stream,
    }


async def test_a_streaming_client_disappears_while_its_job_runs(
    stack: LocalStack,
    http: aiohttp.ClientSession,
    redis: Connections,
    model: str,
    record: Callable[[str], None],
) -> None:
    async with http.post(
        f"{stack.gateway_url}/v1/chat/completions", json=chat(model, stream=True)
    ) as response:
        assert (await response.content.readline()).startswith(b"data: ")
        assert await engine_tokens(http, stack) > 0
        response.close()

    async def engine_idle() -> bool:
        return await engine_tokens(http, stack) == 0

    idle_s = await eventually(engine_idle)
    free_s = await eventually(partial(no_jobs, redis))
    assert await running(redis) == 0
    record(f"streaming client gone: engine idle after {idle_s:.2f} s, slot free {free_s:.2f} s later")


async def test_a_client_disappears_before_its_answer(
    stack: LocalStack, http: aiohttp.ClientSession, redis: Connections, model: str
) -> None:
    request = asyncio.create_task(
        http.post(f"{stack.gateway_url}/v1/chat/completions", json=chat(model, stream=False))
    )

    async def runs() -> bool:
        return await engine_tokens(http, stack) > 0

    await eventually(runs)
    request.cancel()

    async def engine_idle() -> bool:
        return not await runs()

    await eventually(engine_idle)
    await eventually(partial(no_jobs, redis))


async def test_clients_disappear_while_they_wait(
    stack: LocalStack, http: aiohttp.ClientSession, redis: Connections, model: str
) -> None:
    requests = [
        asyncio.create_task(
            http.post(f"{stack.gateway_url}/v1/chat/completions", json=chat(model, stream=stream))
        )
        for stream in (True, False) * 12
    ]

    async def all_in() -> bool:
        return len(await jobs(redis)) == len(requests)

    await eventually(all_in)
    for request in requests:
        if request.done():  # its stream has begun
            request.result().close()
        request.cancel()
    await eventually(partial(no_jobs, redis))
    assert await running(redis) == 0
