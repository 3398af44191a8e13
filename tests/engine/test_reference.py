"""The engine decodes exactly as the plain reference does, and streams by committed blocks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import accumulate
from typing import Any

import httpx
import pytest
from tokenizers import Tokenizer

from tests.engine.reference import Reference

pytestmark = pytest.mark.timeout(700)  # the engine's start included

BLOCK = 32
TEXT = """<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>Write a brief introduction
of the great wall. 请介绍一下长城和它的历史。 The sun was warm, and the river ran slow through the green
country; a man and a horse went up the hill to look for the old castle, and never came back.<|role_end|>
<role>ASSISTANT</role>"""

# prompt tokens, answer tokens
LENGTHS = [
    pytest.param(5, 20, id="inside one block"),
    pytest.param(20, 50, id="shorter than a block"),
    pytest.param(32, 64, id="exactly a block"),
    pytest.param(41, 55, id="longer than a block"),
    pytest.param(150, 100, id="several blocks"),
]


@pytest.fixture(scope="session")
def text_ids(tokenizer: Tokenizer) -> list[int]:
    ids: list[int] = tokenizer.encode(TEXT).ids
    return ids + ids


def body(prompt: list[int], max_tokens: int, **more: Any) -> dict[str, Any]:
    sampling = {"temperature": 0, "max_new_tokens": max_tokens, "ignore_eos": True}
    return {"input_ids": prompt, "sampling_params": sampling} | more


async def answer(engine: httpx.AsyncClient, prompt: list[int], max_tokens: int) -> list[int]:
    response = await engine.post("/generate", json=body(prompt, max_tokens))
    assert response.status_code == 200, response.text
    ids: list[int] = response.json()["output_ids"]
    return ids


@pytest.mark.parametrize(("prompt_tokens", "max_tokens"), LENGTHS)
async def test_alone(
    engine: httpx.AsyncClient,
    reference: Reference,
    text_ids: list[int],
    prompt_tokens: int,
    max_tokens: int,
) -> None:
    prompt = text_ids[-prompt_tokens:]
    expected = reference.generate(prompt, max_tokens)
    assert await answer(engine, prompt, max_tokens) == expected.token_ids


async def test_many_at_once(engine: httpx.AsyncClient, reference: Reference, text_ids: list[int]) -> None:
    requests = [(text_ids[start : start + 7 + 13 * start], 40 + 5 * start) for start in range(12)]
    expected = [reference.generate(*request).token_ids for request in requests]
    assert await asyncio.gather(*(answer(engine, *request) for request in requests)) == expected


@pytest.mark.parametrize("prompt_tokens", [20, 32, 41])
async def test_chunks_end_where_committed_blocks_do(
    engine: httpx.AsyncClient, reference: Reference, text_ids: list[int], prompt_tokens: int
) -> None:
    prompt = text_ids[-prompt_tokens:]
    lengths: list[int] = []
    ids: list[int] = []
    async with engine.stream("POST", "/generate", json=body(prompt, 100, stream=True)) as response:
        async for event in _events(response):
            lengths.append(len(event["output_ids"]) - len(ids))
            ids = event["output_ids"]
    first = BLOCK - prompt_tokens % BLOCK
    blocks = [first, *[BLOCK] * ((100 - first) // BLOCK)]
    # On a busy machine one event may carry two blocks; before a block's last step, 0.5.17's carry none.
    ends, block_ends = list(accumulate(lengths)), list(accumulate([*blocks, 100 - sum(blocks)]))
    assert set(ends) <= {0, *block_ends}
    assert ends[-1] == 100
    assert ids == reference.generate(prompt, 100).token_ids


async def test_the_engine_is_of_the_version_asked_for(engine: httpx.AsyncClient, sglang: str) -> None:
    assert (await engine.get("/server_info")).json()["version"] == sglang


async def _events(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))
