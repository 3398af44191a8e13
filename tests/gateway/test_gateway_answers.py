"""Answers of every endpoint, by the real OpenAI SDK and by plain HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from typing import Any

import openai
import pytest

from dllm_stack.messages import ChatPrompt, Decoding, TextPrompt, TokenPrompt
from gateway.chat.protocol import RULES as CHAT_RULES
from gateway.completions.protocol import RULES as COMPLETION_RULES
from gateway.generate.protocol import RULES as GENERATE_RULES
from gateway.generate.protocol import SAMPLING_RULES
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, until

MESSAGES: Any = [{"role": "user", "content": "Greet the world"}]
CHAT = {"model": "tiny", "messages": MESSAGES}


def events(body: str) -> list[Any]:
    *lines, done, empty = body.split("\n\n")
    assert (done, empty) == ("data: [DONE]", "")
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def test_chat_whole(served: Served, answering: FakeWorker) -> None:
    completion = await served.openai.chat.completions.create(model="tiny", messages=MESSAGES)
    assert completion.id.startswith("chatcmpl-")
    assert completion.object == "chat.completion"
    assert completion.model == "tiny"
    assert completion.created > 1_700_000_000
    (choice,) = completion.choices
    assert (choice.message.role, choice.message.content) == ("assistant", "Hello world")
    assert choice.finish_reason == "stop"
    usage = completion.usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (7, 11, 18)
    assert usage.prompt_tokens_details.cached_tokens == 2


async def test_a_whole_answer_tells_its_length(served: Served, answering: FakeWorker) -> None:
    response = await served.http.post("/v1/completions", json={"model": "tiny", "prompt": "Hi"})
    assert response.headers["content-length"] == str(len(response.content))


async def test_chat_stream_is_one_event_a_block(served: Served, answering: FakeWorker) -> None:
    stream = await served.openai.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
    chunks = [chunk async for chunk in stream]
    deltas = [(c.choices[0].delta.role, c.choices[0].delta.content) for c in chunks]
    assert deltas == [("assistant", "Hello "), (None, "world"), (None, None)]
    assert [c.choices[0].finish_reason for c in chunks] == [None, None, "stop"]
    assert len({c.id for c in chunks}) == 1
    assert all(c.usage is None for c in chunks)


async def test_stream_headers(served: Served, answering: FakeWorker) -> None:
    response = await served.http.post("/v1/chat/completions", json={**CHAT, "stream": True})
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["x-request-id"] == events(response.text)[0]["id"].removeprefix("chatcmpl-")


async def test_usage_chunk_only_when_asked(served: Served, answering: FakeWorker) -> None:
    stream = await served.openai.chat.completions.create(
        model="tiny", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = [chunk async for chunk in stream]
    assert [len(c.choices) for c in chunks] == [1, 1, 1]
    assert all(c.usage is None for c in chunks)
    assert last.choices == []
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens, last.usage.total_tokens) == (7, 11, 18)


async def test_running_usage_in_every_chunk(served: Served, answering: FakeWorker) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {**CHAT, "stream": True, "stream_options": options}
    response = await served.http.post("/v1/chat/completions", json=body)
    assert [e["usage"]["completion_tokens"] for e in events(response.text)] == [6, 11, 11, 11]


async def test_each_block_is_sent_before_the_next_is_there(served: Served, worker: FakeWorker) -> None:
    async def begin() -> openai.AsyncStream[Any]:
        return await served.openai.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)

    request = asyncio.create_task(begin())
    run = await worker.claimed()
    await run.commit("one")
    stream = await asyncio.wait_for(request, 120)
    for text in ("one", "two", "three"):
        chunk = await asyncio.wait_for(anext(stream), 120)
        assert chunk.choices[0].delta.content == text
        await run.commit({"one": "two", "two": "three"}.get(text, "four"))
    await run.finish()
    assert [chunk.choices[0].delta.content async for chunk in stream] == ["four", None]


async def test_an_answer_without_text(served: Served, worker: FakeWorker) -> None:
    request = asyncio.create_task(served.http.post("/v1/chat/completions", json={**CHAT, "stream": True}))
    run = await worker.claimed()
    await run.commit("", tokens=1)
    await run.finish("length")
    (only,) = events((await request).text)
    assert only["choices"][0]["delta"] == {"role": "assistant"}
    assert only["choices"][0]["finish_reason"] == "length"


async def test_chat_prompt_and_decoding_reach_the_worker(served: Served, worker: FakeWorker) -> None:
    body = {
        "model": "tiny",
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
        ],
        "max_completion_tokens": 20,
        "max_tokens": 20,
        "stop": "END",
        "stop_token_ids": [5],
    }
    request = asyncio.create_task(served.http.post("/v1/chat/completions", json=body))
    run = await worker.claimed()
    await run.finish()
    assert (await request).status_code == 200
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert run.job.prompt == ChatPrompt(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "ab"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
        ]
    )
    assert run.job.decoding == Decoding(max_tokens=20, stop=["END"], stop_token_ids=[5])


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/generate"])
async def test_ignore_eos_reaches_the_worker(served: Served, worker: FakeWorker, path: str) -> None:
    bodies: dict[str, Any] = {
        "/v1/chat/completions": {"model": "tiny", "messages": MESSAGES, "ignore_eos": True},
        "/v1/completions": {"model": "tiny", "prompt": "Hi", "ignore_eos": True},
        "/generate": {"text": "Hi", "sampling_params": {"ignore_eos": True}},
    }
    request = asyncio.create_task(served.http.post(path, json=bodies[path]))
    run = await worker.claimed()
    await run.finish()
    assert (await request).status_code == 200
    assert run.job.decoding.ignore_eos


async def test_the_sdk_gives_back_an_answer_as_history(served: Served, answering: FakeWorker) -> None:
    client = served.openai
    first = await client.chat.completions.create(model="tiny", messages=MESSAGES)
    history = [*MESSAGES, first.choices[0].message.model_dump(), {"role": "user", "content": "Again"}]
    second = await client.chat.completions.create(model="tiny", messages=history)
    assert second.choices[0].message.content == "Hello world"


async def test_completion_whole(served: Served, answering: FakeWorker) -> None:
    completion = await served.openai.completions.create(model="tiny", prompt="Greet")
    assert completion.id.startswith("cmpl-")
    assert completion.object == "text_completion"
    assert [(c.index, c.text, c.finish_reason) for c in completion.choices] == [(0, "Hello world", "stop")]
    assert completion.usage is not None
    assert completion.usage.completion_tokens == 11


async def test_completion_stream(served: Served, answering: FakeWorker) -> None:
    stream = await served.openai.completions.create(
        model="tiny", prompt="Greet", stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = [chunk async for chunk in stream]
    assert [c.choices[0].text for c in chunks] == ["Hello ", "world", ""]
    assert [c.choices[0].finish_reason for c in chunks] == [None, None, "stop"]
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.total_tokens == 18


@pytest.mark.parametrize("stream", [False, True])
async def test_completion_of_several_prompts(served: Served, worker: FakeWorker, stream: bool) -> None:
    body = {"model": "tiny", "prompt": ["a", "b"], "stream": stream}
    request = asyncio.create_task(served.http.post("/v1/completions", json=body))
    runs = [await worker.claimed(), await worker.claimed()]
    assert [run.job.prompt for run in runs] == [TextPrompt("a"), TextPrompt("b")]
    assert len({run.job.id for run in runs}) == 2
    for run, text in reversed(list(zip(runs, ["first", "second"], strict=True))):
        await run.commit(text, tokens=2)
        await run.finish()
    response = await request
    payloads = events(response.text) if stream else [response.json()]
    texts = {0: "", 1: ""}
    for payload in payloads:
        for choice in payload["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == {0: "first", 1: "second"}
    if not stream:
        assert [choice["index"] for choice in payloads[0]["choices"]] == [0, 1]
        assert payloads[0]["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [([1, 2], [TokenPrompt([1, 2])]), ([[1], [2, 3]], [TokenPrompt([1]), TokenPrompt([2, 3])])],
)
async def test_completion_of_token_ids(
    served: Served, worker: FakeWorker, prompt: Any, expected: list[TokenPrompt]
) -> None:
    request = asyncio.create_task(
        served.http.post("/v1/completions", json={"model": "tiny", "prompt": prompt})
    )
    runs = [await worker.claimed() for _ in expected]
    assert [run.job.prompt for run in runs] == expected
    assert all(run.job.decoding.max_tokens == 16 for run in runs)
    for run in runs:
        await run.finish()
    assert (await request).status_code == 200


async def test_generate_whole(served: Served, worker: FakeWorker) -> None:
    body = {"text": "Greet", "sampling_params": {"temperature": 0, "stop": ["."]}}
    request = asyncio.create_task(served.http.post("/generate", json=body))
    run = await worker.claimed()
    assert run.job.prompt == TextPrompt("Greet")
    assert run.job.decoding == Decoding(max_tokens=128, stop=["."])
    await run.commit("Hello", tokens=3)
    await run.finish(matched=".")
    answer = (await request).json()
    assert (answer["text"], answer["output_ids"]) == ("Hello", [0, 1, 2])
    meta = answer["meta_info"]
    assert meta.pop("e2e_latency") > 0
    assert meta == {
        "id": run.job.id,
        "finish_reason": {"type": "stop", "matched": "."},
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "cached_tokens": 2,
    }


async def test_generate_stream_is_cumulative(served: Served, worker: FakeWorker) -> None:
    body = {"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 4}, "stream": True}
    request = asyncio.create_task(served.http.post("/generate", json=body))
    run = await worker.claimed()
    assert run.job.prompt == TokenPrompt([1, 2, 3])
    await run.commit("", tokens=1)
    await run.commit("ab", tokens=2)
    await run.commit("c", tokens=1)
    await run.finish("length")
    answers = events((await request).text)
    assert [a["text"] for a in answers] == ["", "ab", "abc", "abc"]
    assert [a["output_ids"] for a in answers] == [[0], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert [a["meta_info"]["completion_tokens"] for a in answers] == [1, 3, 4, 4]
    assert [a["meta_info"]["finish_reason"] for a in answers] == [
        *[None] * 3,
        {"type": "length", "length": 4},
    ]
    assert all("index" not in a for a in answers)


@pytest.mark.parametrize("stream", [False, True])
async def test_generate_of_a_list(served: Served, answering: FakeWorker, stream: bool) -> None:
    body = {"text": ["a", "b"], "stream": stream}
    response = await served.http.post("/generate", json=body)
    if stream:
        last = {a["index"]: a["text"] for a in events(response.text)}
        assert last == {0: "Hello world", 1: "Hello world"}
    else:
        assert [a["text"] for a in response.json()] == ["Hello world", "Hello world"]


@pytest.mark.parametrize("stream", [False, True])
async def test_what_bench_serving_sends(served: Served, answering: FakeWorker, stream: bool) -> None:
    """The payloads of `python -m sglang.bench_serving` with its defaults."""
    generate = {
        "text": "Greet",
        "sampling_params": {"temperature": 0.0, "max_new_tokens": 8, "ignore_eos": True},
        "stream": stream,
        "lora_path": None,
        "return_logprob": False,
        "return_routed_experts": False,
        "logprob_start_len": -1,
    }
    common = {"model": "tiny", "temperature": 0.0, "ignore_eos": True, "stream": stream}
    completions = {**common, "prompt": "Greet", "best_of": 1, "max_tokens": 8}
    chat = {**common, "messages": MESSAGES, "max_completion_tokens": 8}
    for path, body in (
        ("/generate", generate),
        ("/v1/completions", completions),
        ("/v1/chat/completions", chat),
    ):
        response = await served.http.post(path, json=body)
        assert response.status_code == 200, response.text


async def test_neutral_and_ignored_parameters_pass(served: Served, answering: FakeWorker) -> None:
    completion = await served.openai.chat.completions.create(
        model="tiny",
        messages=MESSAGES,
        temperature=0,
        top_p=1,
        n=1,
        seed=None,
        presence_penalty=0.0,
        frequency_penalty=0,
        logit_bias={},
        logprobs=False,
        top_logprobs=None,
        response_format={"type": "text"},
        tools=[],
        tool_choice="auto",
        parallel_tool_calls=True,
        user="u",
        metadata={"a": "b"},
        store=True,
        service_tier="auto",
        stop=None,
        extra_body={"top_k": -1, "min_p": 0, "repetition_penalty": 1.0, "chat_template_kwargs": {}},
    )
    assert completion.choices[0].message.content == "Hello world"


async def test_models(served: Served, answering: FakeWorker) -> None:
    client = served.openai
    await until(served.gateway.catalogue.all)
    (model,) = (await client.models.list()).data
    assert (model.id, model.object, model.created) == ("tiny", "model", 1_700_000_000)
    assert model.owned_by == "dllm-stack"
    assert model.model_dump()["max_model_len"] == 4096
    assert (await client.models.retrieve("tiny")).id == "tiny"
    with pytest.raises(openai.NotFoundError) as error:
        await client.models.retrieve("org/none")
    assert (error.value.code, error.value.param) == ("model_not_found", "model")


async def test_health(served: Served) -> None:
    assert (await served.http.get("/healthz")).status_code == 200
    assert (await served.http.get("/readyz")).status_code == 200
    served.gateway.draining = True
    assert (await served.http.get("/healthz")).status_code == 200
    assert (await served.http.get("/readyz")).status_code == 503


async def test_small_events_are_not_held_back(served: Served, answering: FakeWorker) -> None:
    await served.http.get("/healthz")
    for connection in served.server.server_state.connections:
        transport: Any = connection.transport
        connected = transport.get_extra_info("socket")
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert served.server.server_state.connections


async def test_openapi_tells_every_field(served: Served) -> None:
    document = (await served.http.get("/openapi.json")).json()
    for path, rules in (
        ("/v1/chat/completions", CHAT_RULES),
        ("/v1/completions", COMPLETION_RULES),
        ("/generate", GENERATE_RULES),
    ):
        body = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        told = {*rules.honoured.model_fields, *rules.neutral, *rules.ignored}
        assert body["properties"].keys() == told
        assert body["additionalProperties"] is False
        headers = {each["name"] for each in document["paths"][path]["post"]["parameters"]}
        assert headers == {"X-Request-Timeout", "X-Tenant-ID", "X-Session-ID"}
    of_generate = body["properties"]["sampling_params"]["anyOf"][0]
    assert of_generate["properties"].keys() == {
        *SAMPLING_RULES.honoured.model_fields,
        *SAMPLING_RULES.neutral,
        *SAMPLING_RULES.ignored,
    }
    text = json.dumps(document)
    references = re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', text)
    assert set(references) >= {"Message", "StreamOptions"}
    assert set(references) <= document["components"]["schemas"].keys()
    assert "$defs" not in text
