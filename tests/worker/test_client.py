"""The engine's client against a fake server, for events that only another version of SGLang sends, and
for the moment in which a client is given up while its engine is alive."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from dllm_stack.messages import Decoding
from worker.engine.client import EngineClient, EngineFault


@pytest.fixture
async def fake_engine() -> AsyncIterator[str]:
    """Sends two tokens as 0.5.17 does, with a count of cached tokens below zero, and then nothing more.
    It does not answer when it shall abort."""

    async def generate(request: web.Request) -> web.StreamResponse:
        event = {"text": "a b", "output_ids": [5, 6], "meta_info": {"prompt_tokens": 3, "cached_tokens": -95}}
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        await asyncio.Event().wait()
        return response

    async def hang(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    app = web.Application()
    app.router.add_post("/generate", generate)
    app.router.add_post("/abort_request", hang)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}"
    await runner.cleanup()


async def test_cached_tokens_are_never_negative(fake_engine: str) -> None:
    async with EngineClient(fake_engine) as client:
        generation = await client.generate([1, 2, 3], 4, Decoding())
        progress = await generation.next()
    assert progress.token_ids == [5, 6]
    assert progress.cached_tokens == 0


async def test_a_stream_ends_with_its_client(fake_engine: str) -> None:
    async with EngineClient(fake_engine) as client:
        awaited, unread = [await client.generate([1], 4, Decoding()) for _ in range(2)]
        await awaited.next()
        reading = asyncio.create_task(awaited.next())
        await asyncio.sleep(0)
    with pytest.raises(EngineFault, match="given up"):
        await asyncio.wait_for(reading, 5)
    with pytest.raises(EngineFault, match="given up"):
        await asyncio.wait_for(unread.next(), 5)
    assert not await awaited.stop()


async def test_a_cancelled_stop_closes_the_stream_all_the_same(fake_engine: str) -> None:
    async with EngineClient(fake_engine) as client:
        generation = await client.generate([1], 4, Decoding())
        stopping = asyncio.create_task(generation.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait({stopping})
        assert stopping.cancelled()
        assert generation._response.closed
