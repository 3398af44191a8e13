"""Log probabilities of an autoregressive model, by every endpoint."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx

from dllm_stack.messages import (
    Block,
    Likely,
    Place,
    TokenLogprob,
)
from tests.gateway.autoregressive.kit import CHAT, COMPLETION, GENERATE, Ask
from tests.gateway.fake_worker import PROMPT_TOKENS, FakeWorker, Run
from tests.gateway.served import Served


# An answer of four tokens: a word, the two halves of a character, and the end.
def _token(token_id: int, utf8: bytes, logprob: float, shown: bool = True) -> TokenLogprob:
    drawn = Likely(token_id, utf8, logprob)
    return TokenLogprob(drawn, [drawn, Likely(99, b" other", logprob - 1)], shown)


LOGPROBS = [
    _token(1, b" word", -0.5),
    _token(2, "é".encode()[:1], -0.25),
    _token(3, "é".encode()[1:], -0.125),
    _token(4, b"<end>", -2, shown=False),
]


async def _answer(run: Run) -> None:
    blocks = [(" word", [1], LOGPROBS[:1]), ("", [2], LOGPROBS[1:2])]
    for text, token_ids, logprobs in blocks:
        block = Block(text=text, token_ids=token_ids, prompt_tokens=PROMPT_TOKENS, logprobs=logprobs)
        await run._send(run.place, block)
        run.place = Place(run.place.tokens + 1, run.place.characters + len(text))
    last = Block(text="é", token_ids=[3, 4], prompt_tokens=PROMPT_TOKENS, logprobs=LOGPROBS[2:])
    await run.finish(matched=4, block=last)


async def _answered(served: Served, worker: FakeWorker, path: str, body: Ask) -> httpx.Response:
    request = asyncio.create_task(served.http.post(path, json=body))
    await _answer(await worker.claimed())
    response = await request
    assert response.status_code == 200, response.text
    return response


def _events(response: httpx.Response) -> list[Any]:
    lines = [line for line in response.text.splitlines() if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


async def test_log_probabilities_of_a_chat(served: Served, worker: FakeWorker) -> None:
    asked = {**CHAT, "logprobs": True, "top_logprobs": 2}
    (choice,) = (await _answered(served, worker, "/v1/chat/completions", asked)).json()["choices"]
    content = choice["logprobs"]["content"]
    assert choice["logprobs"]["refusal"] is None
    assert [each["token"] for each in content] == [" word", "bytes:\\xc3", "bytes:\\xa9"]
    assert b"".join(bytes(each["bytes"]) for each in content).decode() == choice["message"]["content"]
    assert content[0] == {
        "token": " word",
        "bytes": list(b" word"),
        "logprob": -0.5,
        "top_logprobs": [
            {"token": " word", "bytes": list(b" word"), "logprob": -0.5},
            {"token": " other", "bytes": list(b" other"), "logprob": -1.5},
        ],
    }
    events = _events(await _answered(served, worker, "/v1/chat/completions", {**asked, "stream": True}))
    streamed = [
        each
        for event in events
        for choice in event["choices"]
        for each in (choice["logprobs"] or {"content": []})["content"]
    ]
    assert streamed == content


async def test_log_probabilities_of_a_completion(served: Served, worker: FakeWorker) -> None:
    asked = {**COMPLETION, "logprobs": 2}
    (choice,) = (await _answered(served, worker, "/v1/completions", asked)).json()["choices"]
    assert choice["logprobs"] == {
        "tokens": [" word", "bytes:\\xc3", "bytes:\\xa9"],
        "token_logprobs": [-0.5, -0.25, -0.125],
        "top_logprobs": [
            {" word": -0.5, " other": -1.5},
            {"bytes:\\xc3": -0.25, " other": -1.25},
            {"bytes:\\xa9": -0.125, " other": -1.125},
        ],
        "text_offset": [0, 5, 6],
    }
    events = _events(await _answered(served, worker, "/v1/completions", {**asked, "stream": True}))
    told = [choice["logprobs"] for event in events for choice in event["choices"] if choice["logprobs"]]
    for name, whole in choice["logprobs"].items():
        assert [each for one in told for each in one[name]] == whole


async def test_log_probabilities_of_generate(served: Served, worker: FakeWorker) -> None:
    asked = {**GENERATE, "return_logprob": True, "top_logprobs_num": 2}
    answer = (await _answered(served, worker, "/generate", asked)).json()
    meta = answer["meta_info"]
    assert meta["output_token_logprobs"] == [
        [-0.5, 1, None],
        [-0.25, 2, None],
        [-0.125, 3, None],
        [-2, 4, None],
    ]
    assert [each[1] for each in meta["output_token_logprobs"]] == answer["output_ids"]
    assert meta["output_top_logprobs"][0] == [[-0.5, 1, None], [-1.5, 99, None]]
    texts = {**asked, "return_text_in_logprobs": True}
    meta = (await _answered(served, worker, "/generate", texts)).json()["meta_info"]
    assert meta["output_token_logprobs"][0] == [-0.5, 1, " word"]
    plain = (await _answered(served, worker, "/generate", GENERATE)).json()["meta_info"]
    assert "output_token_logprobs" not in plain


async def test_log_probabilities_are_told_once(served: Served, worker: FakeWorker) -> None:
    """A worker that takes over may send again what has come, and more."""
    asked = {**CHAT, "logprobs": True}
    request = asyncio.create_task(served.http.post("/v1/chat/completions", json=asked))
    run = await worker.claimed()
    block = Block(text=" word", token_ids=[1], prompt_tokens=PROMPT_TOKENS, logprobs=LOGPROBS[:1])
    await run._send(run.place, block)
    longer = Block(text=" wordé", token_ids=[1, 2, 3, 4], prompt_tokens=PROMPT_TOKENS, logprobs=LOGPROBS)
    await run.give_back()
    again = await worker.claimed()
    again.place = Place(0, 0)
    await again.finish(matched=4, block=longer)
    (choice,) = (await request).json()["choices"]
    assert [each["token"] for each in choice["logprobs"]["content"]] == [
        " word",
        "bytes:\\xc3",
        "bytes:\\xa9",
    ]
