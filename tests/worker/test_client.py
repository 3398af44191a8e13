"""The engine's client against a fake server, for what only another version of SGLang sends, for what it is
sent, and for the moment in which a client is given up while its engine is alive."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from dllm_stack.decoding import Decision, EngineOptions, Sampling
from dllm_stack.messages import Decoding, Work
from worker.engine.client import EngineClient, EngineFault, EngineRefusal, Finish, Progress

_TWO = {"output_ids": [5, 6], "meta_info": {"prompt_tokens": 3, "cached_tokens": -95}}


class FakeEngine:
    """Sends these events, the first as 0.5.17 does, with a count of cached tokens below zero, and then
    nothing more. It does not answer when it shall abort."""

    def __init__(self) -> None:
        self.events: list[Any] = [_TWO]
        self.asked: list[Any] = []
        self.state: dict[str, Any] = {"effective_max_running_requests_per_dp": 24}
        self.server: dict[str, Any] = {"dllm_algorithm": "PerRequest"}

    async def generate(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(await request.json())
        response = web.StreamResponse()
        await response.prepare(request)
        for event in self.events:
            await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        await asyncio.Event().wait()
        return response

    async def info(self, request: web.Request) -> web.Response:
        info = {
            "max_req_input_len": 2000,
            "max_total_num_tokens": 16384,
            "internal_states": [self.state],
            "max_running_requests": 24,
            **self.server,
        }
        return web.json_response(info)

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"max_model_len": 2048}]})


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
async def fake_engine(engine: FakeEngine) -> AsyncIterator[str]:
    """Its URL."""

    async def hang(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    app = web.Application()
    app.router.add_post("/generate", engine.generate)
    app.router.add_get("/server_info", engine.info)
    app.router.add_get("/v1/models", engine.models)
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
    assert progress.work == []


async def test_the_work_of_each_new_token(fake_engine: str, engine: FakeEngine) -> None:
    """Lists grow with the answer. What another request of a round has not said is null."""
    meta = {"dllm_forwards": [4, None], "dllm_steps": [3, None], "dllm_edits": [0, None]}
    more = {"dllm_forwards": [4, None, 9, 0], "dllm_steps": [3, None, 8, 0], "dllm_edits": [0, None, 2, 0]}
    engine.events = [
        {"output_ids": [5, 6], "meta_info": meta},
        {"output_ids": [5, 6, 7, 8], "meta_info": more},
        {"output_ids": [5, 6, 7, 8, 9], "meta_info": {}},
    ]
    async with EngineClient(fake_engine) as client:
        generation = await client.generate([1], 4, Decoding())
        pieces = [await generation.next() for _ in engine.events]
    assert [piece.work for piece in pieces] == [
        [Work(forwards=4, steps=3), Work()],
        [Work(forwards=9, steps=8, edits=2), Work()],
        [],
    ]


def test_blocks_that_came_in_one_event_are_told_apart() -> None:
    work = [Work(forwards=4), Work(), Work(forwards=9), Work()]
    finish = Finish("length")
    assert [*Progress([5, 6, 7, 8], 1, finish, work).blocks()] == [
        Progress([5, 6], 1, None, work[:2]),
        Progress([7, 8], 1, finish, work[2:]),
    ]
    for whole in (Progress([5, 6], 1, finish, work[:2]), Progress([5, 6], 1, finish), Progress([], 0, None)):
        assert [*whole.blocks()] == [whole]


async def test_only_what_is_chosen_goes_to_the_engine(fake_engine: str, engine: FakeEngine) -> None:
    decision = Decision(algorithm="LowConfidence", parameters={"threshold": 0.9})
    chosen = EngineOptions(decision=decision, sampling=Sampling(temperature=0.5, seed=7))
    async with EngineClient(fake_engine) as client:
        for options in (EngineOptions(), chosen):
            await client.generate([1], 4, Decoding(), options)
    plain, other = (asked["sampling_params"] for asked in engine.asked)
    assert "custom_params" not in plain
    assert other["temperature"] == 0
    assert other["custom_params"] == {
        "dllm": {
            "decision": {"algorithm": "LowConfidence", "parameters": {"threshold": 0.9}},
            "sampling": {"temperature": 0.5, "seed": 7},
        }
    }


async def test_slots_are_what_the_decoder_says(fake_engine: str, engine: FakeEngine) -> None:
    async with EngineClient(fake_engine) as client:
        assert (await client.info()).slots == 24
        engine.state["dllm_slots"] = 8  # the rest of its rows are for prompts
        assert (await client.info()).slots == 8


async def test_why_prompts_are_computed_slowly(fake_engine: str, engine: FakeEngine) -> None:
    async with EngineClient(fake_engine) as client:
        for told, reason in ((None, None), ({"fallback": None}, None), ({"fallback": "no hook"}, "no hook")):
            engine.state["dllm_prefill"] = told
            assert (await client.info()).prefill_fallback == reason


AUTOREGRESSIVE = {"dllm_algorithm": None, "incremental_streaming_output": True}


async def test_tokens_that_have_come_are_read_as_one(fake_engine: str, engine: FakeEngine) -> None:
    """With what is told of each, whether an event has what is new or all so far."""
    told: list[list[Any]] = [[-0.5, 5, None], [None, 6, None], [-2, 7, None]]
    tops: list[Any] = [[[-0.5, 5, None]], None, []]
    for deltas in (True, False):
        engine.server = {**AUTOREGRESSIVE, "incremental_streaming_output": deltas}
        engine.events = []
        for end in (1, 2, 3):
            part = slice(end - 1 if deltas else 0, end)
            meta = {
                "output_token_logprobs": told[part],
                "output_top_logprobs": tops[part],
                "cached_tokens": 2,
            }
            engine.events.append({"output_ids": [5, 6, 7][part], "meta_info": meta})
        engine.events[-1]["meta_info"]["finish_reason"] = {"type": "length"}
        async with EngineClient(fake_engine) as client:
            assert (await client.info()).streams_deltas is deltas
            generation = await client.generate([1], 4, Decoding())
            progress = await generation.next()
            while progress.finish is None:
                progress = progress.followed_by(await generation.next())
        assert progress.token_ids == [5, 6, 7]
        assert (progress.finish.type, progress.cached_tokens) == ("length", 2)
        assert [each.drawn for each in progress.logprobs] == [(-0.5, 5, None), (None, 6, None), (-2, 7, None)]
        assert [each.top for each in progress.logprobs] == [[(-0.5, 5, None)], [], []]


@pytest.mark.parametrize(
    ("message", "raised"),
    [("too hot", EngineFault), ("Grammar accept_token failed: Tokens not accepted: 0", EngineRefusal)],
)
async def test_what_came_before_a_failure_is_read_first(
    fake_engine: str, engine: FakeEngine, message: str, raised: type[Exception]
) -> None:
    engine.server = AUTOREGRESSIVE
    engine.events = [
        {"output_ids": [5], "meta_info": {}},
        {"output_ids": [6], "meta_info": {}},
        {"error": {"message": message, "code": 500}},
    ]
    tokens: list[int] = []
    async with EngineClient(fake_engine) as client:
        await client.info()
        generation = await client.generate([1], 4, Decoding())
        while len(tokens) < 2:
            tokens += (await generation.next()).token_ids
        with pytest.raises(raised):
            await generation.next()
    assert tokens == [5, 6]


async def test_a_stream_ends_with_its_client(fake_engine: str) -> None:
    async with EngineClient(fake_engine) as client:
        awaited, unread = [await client.generate([1], 4, Decoding()) for _ in range(2)]
        await awaited.next()
        reading = asyncio.create_task(awaited.next())
        await asyncio.sleep(0)
    with pytest.raises(EngineFault, match="given up"):
        await asyncio.wait_for(reading, 120)
    with pytest.raises(EngineFault, match="given up"):
        await asyncio.wait_for(unread.next(), 120)
    assert not await awaited.stop()


async def test_a_cancelled_stop_closes_the_stream_all_the_same(fake_engine: str) -> None:
    async with EngineClient(fake_engine) as client:
        generation = await client.generate([1], 4, Decoding())
        stopping = asyncio.create_task(generation.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait({stopping})
        assert stopping.cancelled()
        assert generation._answer.ended
