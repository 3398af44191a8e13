"""Streams of requests that wait: comments, with the place in the queue if asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from dllm_stack.outcomes import ErrorCode, Problem
from dllm_stack.redis import Connections
from dllm_stack.settings import GatewaySettings, Settings
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, serving

BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/completions": {"model": "tiny", "prompt": "Hi"},
    "/generate": {"text": "Hi"},
}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"gateway": GatewaySettings(keep_alive_s=0.1)})


@pytest.fixture
async def full(connections: Connections, settings: Settings) -> AsyncIterator[FakeWorker]:
    """A worker without a slot, so that all requests wait."""
    async with FakeWorker(connections, settings.queue, slots=0).working() as worker:
        yield worker


class Stream:
    """What comes of a streamed request, line by line."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def line(self) -> str:
        while not (line := await asyncio.wait_for(anext(self._lines), 120)):
            pass
        return line

    async def data(self) -> Any:
        """The next event, comments left out."""
        while (line := await self.line()).startswith(":"):
            pass
        return json.loads(line.removeprefix("data: "))


@pytest.mark.parametrize("path", BODIES)
async def test_a_stream_that_waits_is_told_so(served: Served, worker: FakeWorker, path: str) -> None:
    async with served.http.stream("POST", path, json={**BODIES[path], "stream": True}) as response:
        stream = Stream(response)
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        run = await worker.claimed()
        assert [await stream.line() for _ in range(2)] == [": waiting"] * 2
        await run.commit("Hello")
        assert "Hello" in json.dumps(await stream.data())
        assert await stream.line() == ": waiting"  # between two blocks too
        await run.fail(Problem(ErrorCode.ENGINE_ERROR, "It broke."))
        assert (await stream.data())["error"]["code"] == "engine_error"


async def test_the_sdk_does_not_mind(served: Served, worker: FakeWorker) -> None:
    async def ask() -> list[str | None]:
        stream = await served.openai.completions.create(model="tiny", prompt="Hi", stream=True)
        return [chunk.choices[0].text async for chunk in stream]

    request = asyncio.create_task(ask())
    run = await worker.claimed()
    await asyncio.sleep(0.25)  # for comments to be sent
    await run.commit("Hello")
    await run.finish()
    assert await request == ["Hello", ""]


async def test_an_error_after_a_comment_is_an_event(served: Served, worker: FakeWorker) -> None:
    path = "/v1/completions"
    async with served.http.stream("POST", path, json={**BODIES[path], "stream": True}) as response:
        stream = Stream(response)
        assert await stream.line() == ": waiting"
        await (await worker.claimed()).fail(Problem(ErrorCode.INVALID_VALUE, "Too odd.", param="prompt"))
        assert (await stream.data())["error"] == {
            "message": "Too odd.",
            "type": "invalid_request_error",
            "param": "prompt",
            "code": "invalid_value",
        }


async def test_the_place_in_the_queue(served: Served, full: FakeWorker, connections: Connections) -> None:
    async def waits(**asked: Any) -> Stream:
        options = {"include_queue_position": True}
        body = {**BODIES["/v1/completions"], "stream": True, "stream_options": options, **asked}
        context = served.http.stream("POST", "/v1/completions", json=body)
        contexts.append(context)
        return Stream(await context.__aenter__())

    contexts: list[Any] = []
    first = await waits()
    second = await waits(n=2)
    assert await first.line() in (": position 1 of 1", ": position 1 of 2")
    await reads(second, ": position 2 of 2")
    urgent = await waits(service_tier="priority")
    await waits(service_tier="flex")
    await reads(urgent, ": position 1 of 4")
    await reads(second, ": position 3 of 4")
    await full.set_slots(2)
    for _ in range(2):
        await full.claimed()
    await reads(second, ": position 1 of 2")
    await reads(first, ": waiting")  # it runs
    for context in contexts:
        await context.__aexit__(None, None, None)


async def reads(stream: Stream, expected: str) -> None:
    async with asyncio.timeout(120):
        while await stream.line() != expected:
            pass


async def test_whole_answers_get_none(served: Served, worker: FakeWorker) -> None:
    request = asyncio.create_task(served.http.post("/generate", json=BODIES["/generate"]))
    run = await worker.claimed()
    await asyncio.sleep(0.25)
    await run.fail(Problem(ErrorCode.ENGINE_ERROR, "It broke."))
    assert (await request).status_code == 502


async def test_comments_can_be_switched_off(worker: FakeWorker, settings: Settings) -> None:
    silent = settings.model_copy(update={"gateway": GatewaySettings(keep_alive_s=0)})
    async with serving(silent) as served:
        request = asyncio.create_task(
            served.http.post("/v1/completions", json={**BODIES["/v1/completions"], "stream": True})
        )
        run = await worker.claimed()
        await asyncio.sleep(0.25)
        await run.finish()
        assert ":" not in {line[:1] for line in (await request).text.splitlines()}
