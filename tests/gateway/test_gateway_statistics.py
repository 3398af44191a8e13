"""What an answer tells of its blocks' cost: that of what was received, once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from dllm_stack.messages import Place, Work
from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from tests.gateway.fake_worker import FakeWorker, Run
from tests.gateway.served import Served
from tests.gateway.test_gateway_decoding import CARD, MESSAGES

FIRST, SECOND = Work(forwards=4, steps=3), Work(forwards=6, steps=5, edits=2)
TOLD = {
    "blocks": 2,
    "tokens": 40,
    "forwards": 10,
    "steps": 8,
    "edits": 2,
    "tokens_per_forward": 4.0,
    "per_block": [
        {"tokens": 8, "forwards": 4, "steps": 3, "edits": 0},
        {"tokens": 32, "forwards": 6, "steps": 5, "edits": 2},
    ],
}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "tiny", "messages": MESSAGES, "dllm": {"stats": True}},
    "/v1/completions": {"model": "tiny", "prompt": "Hi", "dllm": {"stats": True}},
    "/generate": {"text": "Hi", "sampling_params": {"custom_params": {"dllm": {"stats": True}}}},
}


@pytest.fixture
async def choosing(connections: Connections, settings: Settings) -> AsyncIterator[FakeWorker]:
    async with FakeWorker(connections, settings.queue, decoding=CARD).working() as worker:
        yield worker


async def send_all(run: Run) -> None:
    await run.commit("one ", 8, FIRST)
    await run.commit("two", 32, SECOND)
    await run.finish()


def events(response: httpx.Response) -> list[Any]:
    lines = [line for line in response.text.split("\n\n") if line]
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def statistics_in(payload: Any) -> Any:
    return payload.get("meta_info", payload).get("dllm")


@pytest.mark.parametrize("path", BODIES)
async def test_a_whole_answer_tells(served: Served, choosing: FakeWorker, path: str) -> None:
    request = asyncio.create_task(served.http.post(path, json=BODIES[path]))
    await send_all(await choosing.claimed())
    answer = (await request).json()
    assert statistics_in(answer) == TOLD
    usage = answer.get("usage") or answer["meta_info"]
    assert usage["completion_tokens"] == TOLD["tokens"]


@pytest.mark.parametrize("path", BODIES)
async def test_a_stream_tells_at_its_end(served: Served, choosing: FakeWorker, path: str) -> None:
    request = asyncio.create_task(served.http.post(path, json={**BODIES[path], "stream": True}))
    await send_all(await choosing.claimed())
    *before, last = events(await request)
    assert statistics_in(last) == TOLD
    assert [statistics_in(each) for each in before] == [None, None]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_a_stream_with_usage_tells_beside_it(served: Served, choosing: FakeWorker, path: str) -> None:
    body = {**BODIES[path], "stream": True, "stream_options": {"include_usage": True}}
    request = asyncio.create_task(served.http.post(path, json=body))
    await send_all(await choosing.claimed())
    *before, last = events(await request)
    assert (last["choices"], last["usage"]["completion_tokens"], last["dllm"]) == ([], 40, TOLD)
    assert [statistics_in(each) for each in before] == [None] * 3


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
async def test_nobody_is_told_unasked(served: Served, choosing: FakeWorker, path: str, stream: bool) -> None:
    body = {name: value for name, value in BODIES[path].items() if name not in ("dllm", "sampling_params")}
    request = asyncio.create_task(served.http.post(path, json={**body, "stream": stream}))
    await send_all(await choosing.claimed())
    response = await request
    payloads = events(response) if stream else [response.json()]
    assert [statistics_in(each) for each in payloads] == [None] * len(payloads)


async def test_what_comes_twice_counts_once_and_attempts_add_up(served: Served, choosing: FakeWorker) -> None:
    request = asyncio.create_task(served.http.post("/v1/completions", json=BODIES["/v1/completions"]))
    run = await choosing.claimed()
    await run.commit("one ", 8, FIRST)
    await run.give_back()
    again = await choosing.claimed()
    assert again.committed.token_ids == list(range(8))
    await again.commit("two", 32, SECOND)
    await again.finish()
    assert (await request).json()["dllm"] == TOLD


async def test_text_without_tokens_is_no_block(served: Served, choosing: FakeWorker) -> None:
    request = asyncio.create_task(served.http.post("/v1/completions", json=BODIES["/v1/completions"]))
    run = await choosing.claimed()
    await run.commit("one ", 8, FIRST)
    await run.commit("t", 32, SECOND)
    rest = run.block("wo", 0)
    assert run.place == Place(40, 5)
    await run.finish(block=rest)
    answer = (await request).json()
    assert answer["choices"][0]["text"] == "one two"
    assert answer["dllm"] == TOLD


async def test_several_prompts_add_up(served: Served, choosing: FakeWorker) -> None:
    body = {**BODIES["/v1/completions"], "prompt": ["a", "b"]}
    request = asyncio.create_task(served.http.post("/v1/completions", json=body))
    first, second = [await choosing.claimed() for _ in range(2)]
    await second.commit("two", 32, SECOND)
    await second.finish()
    await first.commit("one ", 8, FIRST)
    await first.finish()
    told = (await request).json()["dllm"]
    assert [block.pop("index") for block in told["per_block"]] == [0, 1]
    assert told == TOLD


async def test_an_engine_that_does_not_tell(served: Served, choosing: FakeWorker) -> None:
    request = asyncio.create_task(served.http.post("/v1/completions", json=BODIES["/v1/completions"]))
    run = await choosing.claimed()
    await run.commit("one", 8)
    await run.finish()
    told = (await request).json()["dllm"]
    assert (told["tokens"], told["forwards"], told["tokens_per_forward"]) == (8, 0, None)
