"""The load: chats, so many at a time, each client one after the other."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp

from loadtest.fleet import POOL

TOKENS = 128  # four blocks


async def load(http: aiohttp.ClientSession, url: str, *, at_once: int, requests: int, stream: bool) -> float:
    """Seconds that it took. Raises `aiohttp.ClientResponseError` when one is refused."""
    body: dict[str, Any] = {"model": POOL, "max_tokens": TOKENS, "stream": stream}
    body |= {"messages": [{"role": "user", "content": "Say something."}]}
    waiting = iter(range(requests))

    async def client() -> None:
        for _ in waiting:
            async with http.post(f"{url}/v1/chat/completions", json=body) as response:
                response.raise_for_status()
                await response.read()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(at_once)))
    return time.perf_counter() - began
