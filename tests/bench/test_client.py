"""Answers as servers send them, and as they should not: what is recorded of each.

The servers here are fakes, so that bytes come as no real one would send them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from dllm_stack.bench import load
from dllm_stack.bench.asks import Ask, Prompt, Tenant
from dllm_stack.bench.endpoints import CHAT, COMPLETIONS, GENERATE, Endpoint, Manner
from dllm_stack.bench.load import Run, Target
from dllm_stack.bench.records import INTERRUPTED, Blocks, Record

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
GAP_S = 0.03


def event(content: object) -> bytes:
    return b"data: " + (content if isinstance(content, bytes) else json.dumps(content).encode()) + b"\n\n"


def said(text: str, tokens: int | None = None, finish: str | None = None, **more: Any) -> bytes:
    """An event of a chat."""
    usage = None if tokens is None else {"prompt_tokens": 7, "completion_tokens": tokens}
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]
    return event({"choices": choices, "usage": usage, **more})


DONE = event(b"[DONE]")


def streaming(*pieces: bytes, status: int = 200) -> Handler:
    """A server that sends these, with a gap between them."""

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(status=status, headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(GAP_S)
        return response

    return answer


def asks(count: int, **more: Any) -> list[Ask]:
    return [Ask(number, Prompt("Hello", 1, 48), Tenant(**more)) for number in range(count)]


async def run(
    handler: Handler,
    requests: list[Ask],
    *,
    endpoint: Endpoint = CHAT,
    concurrency: int | None = None,
    timeout_s: float = 120.0,
    stop: asyncio.Event | None = None,
    **manner: Any,
) -> Run:
    app = web.Application()
    app.router.add_post("/{path:.*}", handler)
    async with TestServer(app) as server:
        url = str(server.make_url("/")).rstrip("/")
        target = Target(url, endpoint, Manner("m", **manner), timeout_s)
        return await load.run(target, requests, concurrency, stop or asyncio.Event())


async def record(handler: Handler, **more: Any) -> Record:
    (found,) = (await run(handler, asks(1), **more)).records
    return found


async def test_a_chunk_is_an_event_that_brought_tokens() -> None:
    """Not: the role alone, a comment, text without new tokens, the last event with the usage."""
    usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 41}}
    usage["dllm"] = {"blocks": 2, "tokens": 41, "forwards": 5, "steps": 4, "edits": 1, "per_block": []}
    found = await record(
        streaming(
            b": waiting\n\n",
            said("", 0),
            said("one ", 9),
            said("t", 9),
            said("wo", 41, finish="stop"),
            event(usage) + DONE,
        )
    )
    assert found.error is None
    assert [chunk.tokens for chunk in found.chunks] == [9, 32]
    assert (found.text, found.finish) == ("one two", "stop")
    assert (found.prompt_tokens, found.output_tokens) == (7, 41)
    assert found.blocks == Blocks(2, 41, 5, 4, 1)
    assert found.ttft_s is not None
    assert 2 * GAP_S <= found.ttft_s < found.chunks[1].at_s < found.latency_s


async def test_bytes_may_be_cut_anywhere() -> None:
    whole = said("schön ", 5) + said("\N{RINGED PLANET}", 37, finish="length") + DONE
    pieces = [whole[place : place + 23] for place in range(0, len(whole), 23)]
    found = await record(streaming(*(piece.replace(b"\n", b"\r\n") for piece in pieces)))
    assert (found.error, found.text) == (None, "schön \N{RINGED PLANET}")
    assert [chunk.tokens for chunk in found.chunks] == [5, 32]


async def test_usage_may_come_at_the_end_or_not_at_all() -> None:
    at_end = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 30}})
    found = await record(streaming(said("a"), said(""), said("b"), at_end, DONE))
    assert [chunk.tokens for chunk in found.chunks] == [None, None]
    assert found.output_tokens == 30
    found = await record(streaming(said("a"), said("b"), DONE))
    assert (len(found.chunks), found.output_tokens, found.generated) == (2, None, 48)


async def test_generate_repeats_all_text_and_tells_all_tokens() -> None:
    def so_far(text: str, tokens: int, finish: object = None) -> bytes:
        meta = {"prompt_tokens": 3, "completion_tokens": tokens, "finish_reason": finish}
        return event({"text": text, "output_ids": [], "meta_info": meta})

    found = await record(
        streaming(
            so_far("a", 4), so_far("a", 4), so_far("ab", 36), so_far("ab", 36, {"type": "length"}), DONE
        ),
        endpoint=GENERATE,
    )
    assert [chunk.tokens for chunk in found.chunks] == [4, 32]
    assert (found.text, found.prompt_tokens, found.output_tokens, found.finish) == ("ab", 3, 36, "length")


async def test_a_whole_answer_is_one_chunk_at_its_end() -> None:
    async def whole(request: web.Request) -> web.Response:
        assert (await request.json())["stream"] is False
        usage = {"prompt_tokens": 2, "completion_tokens": 8}
        return web.json_response({"choices": [{"text": "hi", "finish_reason": "stop"}], "usage": usage})

    found = await record(whole, endpoint=COMPLETIONS, stream=False)
    assert (found.error, found.text, found.output_tokens) == (None, "hi", 8)
    assert found.ttft_s == found.latency_s > 0


@pytest.mark.parametrize(
    ("pieces", "error", "detail"),
    [
        ([said("a", 4)], "stream cut", "ended without [DONE]"),
        (
            [said("a", 4), event({"error": {"message": "gone", "code": "worker_lost"}})],
            "stream worker_lost",
            "gone",
        ),
        ([said("a", 4), b"data: {nonsense\n\n"], "unreadable answer", ""),
    ],
)
async def test_a_broken_answer_is_an_error(pieces: list[bytes], error: str, detail: str) -> None:
    found = await record(streaming(*pieces))
    assert found.error == error
    assert detail in found.detail


@pytest.mark.parametrize(
    ("body", "error", "detail"),
    [
        (b'{"error": {"message": "full", "code": "queue_full"}}', "429 queue_full", "full"),
        (b'{"object": "error", "message": "no", "type": "BadRequestError", "code": 400}', "429 400", "no"),
        (b"<html>busy</html>", "429", "<html>busy</html>"),
    ],
)
async def test_a_refusal_is_told_by_status_and_code(body: bytes, error: str, detail: str) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=429, body=body)

    found = await record(refuse)
    assert (found.error, found.detail, found.chunks) == (error, detail, [])


async def test_a_server_that_is_not_there_and_one_that_is_silent() -> None:
    target = Target("http://127.0.0.1:9", CHAT, Manner("m"), 5.0)
    (found,) = (await load.run(target, asks(1), None, asyncio.Event())).records
    assert found.error == "ClientConnectorError"

    async def silent(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    assert (await record(silent, timeout_s=0.2)).error == "timeout"


async def test_what_is_sent() -> None:
    bodies: dict[str, dict[str, Any]] = {}
    headers: dict[str, str] = {}

    async def keep(request: web.Request) -> web.Response:
        bodies[request.path] = await request.json()
        headers.update(request.headers)
        return web.Response(status=500)

    sender = {"model": "m:speed", "headers": {"X-Tenant-ID": "light"}, "extra": {"service_tier": "flex"}}
    for endpoint in (CHAT, COMPLETIONS, GENERATE):
        await run(keep, asks(1, **sender), endpoint=endpoint, stats=True, extra={"temperature": 0.5})
    chat = bodies["/v1/chat/completions"]
    assert chat["messages"] == [{"role": "user", "content": "Hello"}]
    assert (chat["model"], chat["max_completion_tokens"], chat["temperature"]) == ("m:speed", 48, 0.5)
    assert (chat["ignore_eos"], chat["dllm"], chat["service_tier"]) == (True, {"stats": True}, "flex")
    assert chat["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert (bodies["/v1/completions"]["prompt"], bodies["/v1/completions"]["max_tokens"]) == ("Hello", 48)
    native = bodies["/generate"]
    assert (native["text"], native["sampling_params"]["max_new_tokens"]) == ("Hello", 48)
    assert native["sampling_params"]["custom_params"] == {"dllm": {"stats": True}}
    assert headers["X-Tenant-ID"] == "light"


class Crowd:
    """A server that sees how many are with it, and answers nobody before so many are."""

    def __init__(self, expected: int) -> None:
        self.now = self.most = 0
        self._expected = expected
        self._all = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.now += 1
        self.most = max(self.most, self.now)
        if self.most >= self._expected:
            self._all.set()
        try:
            await self._all.wait()
            return await streaming(said("a", 4), DONE)(request)
        finally:
            self.now -= 1


async def test_a_closed_loop_keeps_its_concurrency() -> None:
    crowd = Crowd(4)
    found = await run(crowd.answer, asks(20), concurrency=4)
    assert (len(found.records), crowd.most) == (20, 4)
    assert [each.number for each in found.records] == list(range(20))


async def test_an_open_loop_sends_when_it_is_due_whatever_becomes_of_those_before() -> None:
    crowd = Crowd(3)
    due = [0.0, 0.001, 0.002, 0.2]
    requests = [Ask(n, Prompt("x", 1, 4), Tenant(), due_s) for n, due_s in enumerate(due)]
    found = await run(crowd.answer, requests)
    assert [each.error for each in found.records] == [None] * 4
    assert all(each.sent_s >= (each.due_s or 0) for each in found.records)


async def test_an_interrupted_run_has_what_was_measured() -> None:
    stop = asyncio.Event()
    answered = 0

    async def some(request: web.Request) -> web.StreamResponse:
        nonlocal answered
        answered += 1
        if answered > 3:
            stop.set()
            await asyncio.sleep(1000)
        return await streaming(said("a", 4), DONE)(request)

    found = await run(some, asks(100), concurrency=1, stop=stop)
    assert found.interrupted
    assert [each.error for each in found.records] == [None] * 3 + [INTERRUPTED]
    assert found.duration_s < 500


async def test_it_tells_what_it_costs() -> None:
    found = await run(streaming(said("a", 4), DONE), asks(5))
    assert 0 < found.cost.cpu_s < 5
    assert 0 < found.cost.share <= 2
    assert found.cost.late_ms >= 0
