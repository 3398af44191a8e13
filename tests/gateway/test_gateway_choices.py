"""`n` choices of a request, and the token ids of each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dllm_stack.outcomes import ErrorCode, Problem
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served
from tests.gateway.test_gateway_answers import MESSAGES, events

pytestmark = pytest.mark.asyncio(loop_scope="module")

Pair = tuple[Served, FakeWorker]
PATHS = {
    "/v1/chat/completions": {"model": "tiny", "messages": MESSAGES},
    "/v1/completions": {"model": "tiny", "prompt": "Hi"},
}
each_path = pytest.mark.parametrize("path", PATHS)


def text_of(choice: dict[str, Any]) -> str:
    if "text" in choice:
        return str(choice["text"])
    return str((choice.get("message") or choice["delta"]).get("content") or "")


async def answered(pair: Pair, path: str, blocks: list[tuple[str, int]], **asked: Any) -> Any:
    """The response to a request of one job, which answers in blocks of so many tokens."""
    served, worker = pair
    request = asyncio.create_task(served.http.post(path, json={**PATHS[path], **asked}))
    run = await worker.claimed()
    for text, tokens in blocks:
        await run.commit(text, tokens)
    await run.finish()
    return await request


@each_path
async def test_greedy_choices_are_one_job(pair: Pair, path: str) -> None:
    answer = (await answered(pair, path, [("Hello ", 4), ("world", 2)], n=3)).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert [text_of(choice) for choice in answer["choices"]] == ["Hello world"] * 3
    assert {choice["finish_reason"] for choice in answer["choices"]} == {"stop"}
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (7, 18, 25)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 2}


@each_path
async def test_greedy_choices_streamed(pair: Pair, path: str) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    blocks = [("你", 4), ("好", 1)]
    response = await answered(pair, path, blocks, n=2, stream=True, stream_options=options)
    *chunks, last = events(response.text)
    seen = [(chunk["choices"][0]["index"], text_of(chunk["choices"][0])) for chunk in chunks]
    assert seen == [(0, "你"), (1, "你"), (0, "好"), (1, "好"), (0, ""), (1, "")]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 4 + ["stop"] * 2
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [4, 4, 5, 5, 5, 5]
    assert (last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"]) == (7, 10)
    if "messages" in PATHS[path]:
        roles = [chunk["choices"][0]["delta"].get("role") for chunk in chunks]
        assert roles == ["assistant"] * 2 + [None] * 4


@pytest.mark.parametrize("stream", [False, True])
async def test_several_prompts_of_several_choices(pair: Pair, stream: bool) -> None:
    served, worker = pair
    options = {"include_usage": True} if stream else None
    body = {"model": "tiny", "prompt": ["a", "b"], "n": 2, "stream": stream, "stream_options": options}
    request = asyncio.create_task(served.http.post("/v1/completions", json=body))
    for _ in range(2):
        run = await worker.claimed()
        await run.commit(run.job.prompt.text * 2, tokens=3)  # type: ignore[union-attr]
        await run.finish()
    response = await request
    chunks = events(response.text) if stream else [response.json()]
    texts = [""] * 4
    for chunk in chunks:
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == ["aa", "aa", "bb", "bb"]
    assert chunks[-1]["usage"]["prompt_tokens"] == 2 * 7
    assert chunks[-1]["usage"]["completion_tokens"] == 4 * 3


@each_path
async def test_sampled_choices_are_jobs_with_seeds(pair: Pair, path: str) -> None:
    served, worker = pair

    async def seeds(seed: int | None, n: int) -> tuple[list[int], dict[str, Any]]:
        body = {**PATHS[path], "n": n, "temperature": 0.7, "seed": seed}
        request = asyncio.create_task(served.http.post(path, json=body))
        for number in range(n):
            run = await worker.claimed()
            assert run.job.decoding.sampling is not None
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


async def test_a_choice_that_fails_fails_the_request(pair: Pair) -> None:
    served, worker = pair
    path = "/v1/chat/completions"
    body = {**PATHS[path], "n": 2, "temperature": 1, "stream": True}
    request = asyncio.create_task(served.http.post(path, json=body))
    first, second = await worker.claimed(), await worker.claimed()
    await first.commit("a")
    await second.fail(Problem(ErrorCode.ENGINE_ERROR, "It broke."))
    await asyncio.wait_for(first.cancelled.wait(), 120)
    assert '"code":"engine_error"' in (await request).text


async def test_the_most_choices(pair: Pair) -> None:
    answer = (await answered(pair, "/v1/chat/completions", [("é", 1)], n=128)).json()
    assert [choice["index"] for choice in answer["choices"]] == list(range(128))
    assert {text_of(choice) for choice in answer["choices"]} == {"é"}


@each_path
async def test_token_ids_on_request(pair: Pair, path: str) -> None:
    answer = (await answered(pair, path, [("ab", 2), ("c", 1)], n=2, return_token_ids=True)).json()
    assert [choice["token_ids"] for choice in answer["choices"]] == [[0, 1, 2]] * 2


@each_path
async def test_token_ids_of_each_chunk(pair: Pair, path: str) -> None:
    blocks = [("", 2), ("ab", 3)]  # the first one's text is held back
    response = await answered(pair, path, blocks, stream=True, return_token_ids=True)
    choices = [chunk["choices"][0] for chunk in events(response.text)]
    assert [choice["token_ids"] for choice in choices] == [[0, 1], [2, 3, 4], []]
    assert [text_of(choice) for choice in choices] == ["", "ab", ""]


@each_path
@pytest.mark.parametrize("stream", [False, True])
async def test_no_token_ids_unasked(pair: Pair, path: str, stream: bool) -> None:
    assert "token_ids" not in (await answered(pair, path, [("a", 1)], stream=stream)).text


async def test_statistics_tell_the_work_once(pair: Pair) -> None:
    asked = {"n": 2, "stream": True, "dllm": {"stats": True}}
    chunks = events((await answered(pair, "/v1/completions", [("abc", 3)], **asked)).text)
    assert [chunk["dllm"]["tokens"] for chunk in chunks if "dllm" in chunk] == [3]
