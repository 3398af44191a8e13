"""What clients see of an error: a status before the first byte, an event after it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest

from dllm_stack.outcomes import ErrorCode, Problem
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.faults.kit import (
    ENGINE_ERROR,
    MESSAGES,
    NoKeysLeft,
    payloads,
    post,
    relayed,
)
from tests.gateway.served import Served, until

TOO_LONG = Problem(ErrorCode.CONTEXT_LENGTH_EXCEEDED, "The prompt is too long.", param="messages")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_before_the_first_byte_has_its_status(
    served: Served, worker: FakeWorker, no_keys_left: NoKeysLeft, stream: bool
) -> None:
    request = post(served, stream=stream)
    await (await worker.claimed()).fail(TOO_LONG)
    response = await request
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    assert response.json() == TOO_LONG.body()
    await until(no_keys_left)
    assert await served.outcomes() == {("chat", "tiny", "rejected", "context_length_exceeded"): 1}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {"model": "tiny", "prompt": [1]}, "prompt"),
        ("/generate", {"text": "Hi"}, "text"),
        ("/generate", {"input_ids": [1]}, "input_ids"),
    ],
)
async def test_a_prompt_at_fault_has_the_name_its_client_gave_it(
    served: Served, worker: FakeWorker, path: str, body: dict[str, Any], param: str
) -> None:
    request = asyncio.create_task(served.http.post(path, json=body))
    await (await worker.claimed()).fail(TOO_LONG)
    assert (await request).json()["error"]["param"] == param


async def test_an_error_after_the_first_byte_is_an_event(
    served: Served, worker: FakeWorker, no_keys_left: NoKeysLeft
) -> None:
    request = post(served, stream=True)
    run = await worker.claimed()
    await run.commit("part")
    await until(lambda: relayed(served))
    await run.fail(ENGINE_ERROR)
    response = await request
    assert response.status_code == 200
    assert payloads(response)[-1] == ENGINE_ERROR.body()
    assert "[DONE]" not in response.text
    await until(no_keys_left)
    assert await served.outcomes() == {("chat", "tiny", "failed", "engine_error"): 1}


async def test_the_sdk_raises_it(served: Served, worker: FakeWorker) -> None:
    async def consume() -> None:
        stream = await served.openai.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
        async for _ in stream:
            seen.set()

    seen = asyncio.Event()
    request = asyncio.create_task(consume())
    run = await worker.claimed()
    await run.commit("part")
    await asyncio.wait_for(seen.wait(), 120)
    await run.fail(ENGINE_ERROR)
    with pytest.raises(openai.APIError, match="The engine died") as error:
        await request
    assert (error.value.code, error.value.type) == ("engine_error", "server_error")


async def test_generate_ends_a_broken_stream_as_sglang_does(served: Served, worker: FakeWorker) -> None:
    request = asyncio.create_task(served.http.post("/generate", json={"text": "Hi", "stream": True}))
    run = await worker.claimed()
    await run.commit("part")
    await until(lambda: relayed(served))
    await run.fail(ENGINE_ERROR)
    *_, error, done, empty = (await request).text.split("\n\n")
    assert json.loads(error[6:]) == ENGINE_ERROR.body()
    assert (done, empty) == ("data: [DONE]", "")


async def test_one_failed_prompt_fails_the_request_and_cancels_the_others(
    served: Served, worker: FakeWorker, no_keys_left: NoKeysLeft
) -> None:
    body = {"model": "tiny", "prompt": ["a", "b"]}
    request = asyncio.create_task(served.http.post("/v1/completions", json=body))
    first, second = await worker.claimed(), await worker.claimed()
    await first.fail(ENGINE_ERROR)
    assert (await request).status_code == 502
    await asyncio.wait_for(second.cancelled.wait(), 120)
    await until(no_keys_left)
    assert await served.outcomes() == {("completions", "tiny", "failed", "engine_error"): 1}
