"""How many forwards an engine needed for its answers, from SGLang's own counter.

SGLang counts the tokens that it computes. A forward computes one block of each request in its batch, so this
count divided by the block size is how many forwards the requests took part in, one after another or together.
"""

from __future__ import annotations

import asyncio

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from models.demo.shape import BLOCK_SIZE

_COUNTER = ("sglang:realtime_tokens_total", "prefill_compute")  # SGLang calls every dLLM forward a prefill
_PAUSE_S = 0.05


async def made(http: aiohttp.ClientSession, engine_url: str) -> int:
    """Forwards since the engine's start. Waits until it makes no more."""
    before, now = -1, await _read(http, engine_url)
    while now != before:
        await asyncio.sleep(_PAUSE_S)
        before, now = now, await _read(http, engine_url)
    return now


def of_prompt(prompt_tokens: int, cached_tokens: int) -> int:
    """Those that only store a prompt: one for each whole block of it that was not in the prefix cache."""
    return prompt_tokens // BLOCK_SIZE - cached_tokens // BLOCK_SIZE


async def _read(http: aiohttp.ClientSession, engine_url: str) -> int:
    async with http.get(f"{engine_url}/metrics") as response:
        response.raise_for_status()
        families = text_string_to_metric_families(await response.text())
    tokens = sum(
        sample.value
        for family in families
        for sample in family.samples
        if (sample.name, sample.labels.get("mode")) == _COUNTER
    )
    return int(tokens) // BLOCK_SIZE
