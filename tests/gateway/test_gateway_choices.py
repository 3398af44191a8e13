"""`n` choices of a request, and the token ids of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dllm_stack.decoding import Decision
from dllm_stack.messages import DecodingCard
from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served
from tests.gateway.test_gateway_answers import MESSAGES, events

PATHS = {
    "/v1/chat/completions": {"model": "tiny", "messages": MESSAGES},
    "/v1/completions": {"model": "tiny", "prompt": "Hi"},
}
SAMPLING = DecodingCard(
    default=Decision(algorithm="LowConfidence"),
    modes={},
    algorithms={"LowConfidence": []},
    sampling=["LowConfidence"],
)


@pytest.fixture
async def sampling(connections: Connections, settings: Settings) -> AsyncIterator[FakeWorker]:
    """A worker whose runs the test drives, of a model that honours a temperature."""
    async with FakeWorker(connections, settings.queue, decoding=SAMPLING).working() as worker:
        yield worker


def text_of(choice: dict[str, Any]) -> str:
    if "text" in choice:
        return str(choice["text"])
    return str((choice.get("message") or choice["delta"]).get("content") or "")


@pytest.mark.parametrize("path", PATHS)
async def test_greedy_choices_are_one_job(served: Served, worker: FakeWorker, path: str) -> None:
    request = asyncio.create_task(served.http.post(path, json={**PATHS[path], "n": 3}))
    run = await worker.claimed()
    await run.commit("Hello ", tokens=4)
    await run.commit("world", tokens=2)
    await run.finish("length")
    answer = (await request).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert [text_of(choice) for choice in answer["choices"]] == ["Hello world"] * 3
    assert {choice["finish_reason"] for choice in answer["choices"]} == {"length"}
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (7, 18, 25)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 2}
    assert (await served.outcomes()).popitem()[1] == 1


@pytest.mark.parametrize("path", PATHS)
async def test_greedy_choices_streamed(served: Served, worker: FakeWorker, path: str) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {**PATHS[path], "n": 2, "stream": True, "stream_options": options}
    request = asyncio.create_task(served.http.post(path, json=body))
    run = await worker.claimed()
    await run.commit("你", tokens=4)
    await run.commit("好")
    await run.finish()
    *chunks, last = events((await request).text)
    seen = [(chunk["choices"][0]["index"], text_of(chunk["choices"][0])) for chunk in chunks]
    assert seen == [(0, "你"), (1, "你"), (0, "好"), (1, "好"), (0, ""), (1, "")]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 4 + ["stop"] * 2
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [4, 4, 5, 5, 5, 5]
    assert (last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"]) == (7, 10)
    if "messages" in body:
        roles = [chunk["choices"][0]["delta"].get("role") for chunk in chunks]
        assert roles == ["assistant"] * 2 + [None] * 4


@pytest.mark.parametrize("stream", [False, True])
async def test_several_prompts_of_several_choices(
    served: Served, answering: FakeWorker, stream: bool
) -> None:
    options = {"include_usage": True} if stream else None
    body = {"model": "tiny", "prompt": ["a", "b"], "n": 2, "stream": stream, "stream_options": options}
    response = await served.http.post("/v1/completions", json=body)
    chunks = events(response.text) if stream else [response.json()]
    texts = dict.fromkeys(range(4), "")
    for chunk in chunks:
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == dict.fromkeys(range(4), "Hello world")
    assert chunks[-1]["usage"]["prompt_tokens"] == 2 * 7
    assert chunks[-1]["usage"]["completion_tokens"] == 4 * 11


@pytest.mark.parametrize("path", PATHS)
async def test_sampled_choices_are_jobs_with_seeds(served: Served, sampling: FakeWorker, path: str) -> None:
    async def seeds(seed: int | None, n: int) -> tuple[list[int], dict[str, Any]]:
        body = {**PATHS[path], "n": n, "temperature": 0.7, "seed": seed}
        request = asyncio.create_task(served.http.post(path, json=body))
        runs = [await sampling.claimed() for _ in range(n)]
        runs.sort(key=lambda run: run.job.decoding.sampling.seed)
        for number, run in enumerate(runs):
            await run.commit(f"{run.job.decoding.sampling.seed}", tokens=number + 1)
            await run.finish()
        answer = (await request).json()
        return [int(text_of(choice)) for choice in answer["choices"]], answer

    three, answer = await seeds(5, 3)
    assert three[0] == 5  # as if it were the only one
    assert len(set(three)) == 3
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (7, 1 + 2 + 3)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 2}
    assert (await seeds(5, 3))[0] == three
    assert (await seeds(5, 2))[0] == three[:2]
    assert not set((await seeds(-6, 3))[0]) & set(three)
    unseeded = [*(await seeds(None, 2))[0], *(await seeds(None, 2))[0]]
    assert len(set(unseeded)) == 4


async def test_a_choice_that_fails_fails_the_request(served: Served, sampling: FakeWorker) -> None:
    from dllm_stack.outcomes import ErrorCode, Problem

    body = {**PATHS["/v1/chat/completions"], "n": 2, "temperature": 1, "stream": True}
    request = asyncio.create_task(served.http.post("/v1/chat/completions", json=body))
    first, second = await sampling.claimed(), await sampling.claimed()
    await first.commit("a")
    await second.fail(Problem(ErrorCode.ENGINE_ERROR, "It broke."))
    await asyncio.wait_for(first.cancelled.wait(), 20)
    assert '"engine_error"' in (await request).text


async def test_the_most_choices(served: Served, answering: FakeWorker) -> None:
    completion = await served.openai.chat.completions.create(model="tiny", messages=MESSAGES, n=128)
    assert [choice.index for choice in completion.choices] == list(range(128))
    assert {choice.message.content for choice in completion.choices} == {"Hello world"}


@pytest.mark.parametrize("path", PATHS)
async def test_token_ids_on_request(served: Served, worker: FakeWorker, path: str) -> None:
    request = asyncio.create_task(
        served.http.post(path, json={**PATHS[path], "n": 2, "return_token_ids": True})
    )
    run = await worker.claimed()
    await run.commit("ab", tokens=2)
    await run.finish(block=run.block("c"))
    assert [choice["token_ids"] for choice in (await request).json()["choices"]] == [[0, 1, 2]] * 2


@pytest.mark.parametrize("path", PATHS)
async def test_token_ids_of_each_chunk(served: Served, worker: FakeWorker, path: str) -> None:
    body = {**PATHS[path], "stream": True, "return_token_ids": True}
    request = asyncio.create_task(served.http.post(path, json=body))
    run = await worker.claimed()
    await run.commit("", tokens=2)  # its text is held back
    await run.commit("ab", tokens=3)
    await run.finish()
    choices = [chunk["choices"][0] for chunk in events((await request).text)]
    assert [choice["token_ids"] for choice in choices] == [[0, 1], [2, 3, 4], []]
    assert [text_of(choice) for choice in choices] == ["", "ab", ""]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
async def test_no_token_ids_unasked(served: Served, answering: FakeWorker, path: str, stream: bool) -> None:
    assert "token_ids" not in (await served.http.post(path, json={**PATHS[path], "stream": stream})).text


async def test_statistics_tell_the_work_once(
    served: Served, connections: Connections, settings: Settings
) -> None:
    async with FakeWorker(connections, settings.queue, decoding=SAMPLING, blocks=["abc"]).working():
        body = {**PATHS["/v1/completions"], "n": 2, "stream": True, "dllm": {"stats": True}}
        chunks = events((await served.http.post("/v1/completions", json=body)).text)
    assert [chunk["dllm"]["tokens"] for chunk in chunks if "dllm" in chunk] == [3]
