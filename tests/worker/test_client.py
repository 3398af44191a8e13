"""What the worker makes of events that only another version of SGLang sends: a fake server sends them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from dllm_stack.messages import Decoding
from worker.engine.client import EngineClient


@pytest.fixture
async def fake_engine() -> AsyncIterator[str]:
    """The last event of an answer as 0.5.17 sends it, with a count of cached tokens below zero."""

    async def generate(request: web.Request) -> web.StreamResponse:
        meta = {"finish_reason": {"type": "length", "length": 2}, "prompt_tokens": 3, "cached_tokens": -95}
        event = json.dumps({"text": "a b", "output_ids": [5, 6], "meta_info": meta})
        return web.Response(text=f"data: {event}\n\ndata: [DONE]\n\n", content_type="text/event-stream")

    app = web.Application()
    app.router.add_post("/generate", generate)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}"
    await runner.cleanup()


async def test_cached_tokens_are_never_negative(fake_engine: str) -> None:
    async with EngineClient(fake_engine) as client:
        generation = await client.generate([1, 2, 3], 2, Decoding())
        progress = await generation.next()
        await generation.stop()
    assert (progress.text, progress.token_ids) == ("a b", [5, 6])
    assert progress.cached_tokens == 0
