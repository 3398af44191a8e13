"""What block decoding cannot honour is a 400 that names it, and the engine goes on. What asks for nothing
passes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.timeout(700)  # the engine's start included

PROMPT = list(range(10, 30))
REFUSED_SAMPLING: list[tuple[str, Any]] = [
    ("json_schema", '{"type": "object"}'),
    ("regex", "[0-9]+"),
    ("ebnf", 'root ::= "a"'),
    ("structural_tag", '{"structures": [], "triggers": []}'),
    ("temperature", 0.7),
    ("top_p", 0.9),
    ("top_k", 5),
    ("min_p", 0.1),
    ("sampling_seed", 7),
    ("frequency_penalty", 0.5),
    ("presence_penalty", 0.5),
    ("repetition_penalty", 1.1),
    ("min_new_tokens", 5),
    ("logit_bias", {"5": 1.0}),
    ("n", 2),
    ("n", 10**6),
    ("beam_width", 2),
    ("stop_regex", "(a+)+$"),
    ("max_new_tokens", -1),
    ("temprature", 0),
    ("custom_params", {"dlm": {}}),
]
# SGLang 0.5.23 refuses these itself, by their types.
WRONG_TYPES: list[tuple[str, Any]] = [
    ("temperature", "hot"),
    ("n", "two"),
    ("max_new_tokens", "many"),
    ("stop", [1]),
    ("stop_token_ids", ["x"]),
    ("ignore_eos", "yes"),
    ("custom_params", []),
]
REFUSED_FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("return_logprob", {"return_logprob": True}),
    ("top_logprobs_num", {"top_logprobs_num": 5}),
    ("return_hidden_states", {"return_hidden_states": True}),
    ("session_params", {"session_params": {"id": "s"}}),
    ("lora_path", {"lora_path": "adapter"}),
    ("custom_logit_processor", {"custom_logit_processor": "{}"}),
    ("input_ids", {"input_ids": [5, 1 << 20]}),
    ("input_ids", {"input_ids": [5, -1]}),
    ("sampling_params", {"sampling_params": []}),
    ("rid", {"rid": ["a", "b"]}),
    ("rid", {"rid": ""}),
    ("rid", {"rid": "HEALTH_CHECK_1"}),
    ("regex", {"input_ids": [[5], [6]], "sampling_params": [{}, {"regex": "[0-9]+"}]}),
]
WRONG_DLLM: list[tuple[str, Any]] = [
    ("custom_params.dllm", 7),
    ("threshold", {"decision": {"algorithm": "LowConfidence", "parameters": {"threshold": 2}}}),
    ("edit_threshold", {"decision": {"algorithm": "LowConfidence", "parameters": {"edit_threshold": 0.5}}}),
    ("algorithm", {"decision": {"algorithm": "NoSuchAlgorithm"}}),
    ("top_p", {"sampling": {"top_p": 0}}),
    ("top_k", {"sampling": {"temperature": 1, "top_k": 1 << 63}}),
    ("temperature", {"decision": {"algorithm": "JointThreshold"}, "sampling": {"temperature": 1}}),
]
NEUTRAL: list[dict[str, Any]] = [
    {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "n": 1},
    {"frequency_penalty": 0.0, "presence_penalty": 0, "repetition_penalty": 1.0, "logit_bias": {}},
    {"regex": None, "json_schema": None, "stop_regex": None, "sampling_seed": None, "min_new_tokens": 0},
    {"stop": ["the"], "stop_token_ids": [3], "ignore_eos": True, "skip_special_tokens": False},
]


def body(sampling: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "input_ids": PROMPT,
        "sampling_params": {"temperature": 0, "max_new_tokens": 8} | (sampling or {}),
    } | fields


async def goes_on(engine: httpx.AsyncClient) -> None:
    answer = (await engine.post("/generate", json=body({"ignore_eos": True}))).raise_for_status().json()
    assert len(answer["output_ids"]) == 8


async def refused(engine: httpx.AsyncClient, request: dict[str, Any]) -> str:
    response = await engine.post("/generate", json=request)
    assert response.status_code == 400, response.text
    return response.text


async def test_each_sampling_parameter_by_name(engine: httpx.AsyncClient) -> None:
    for name, value in REFUSED_SAMPLING:
        assert name in await refused(engine, body({name: value})), (name, value)
    await goes_on(engine)


async def test_other_types(engine: httpx.AsyncClient) -> None:
    for name, value in WRONG_TYPES:
        await refused(engine, body({name: value}))
    await goes_on(engine)


async def test_each_field_by_name(engine: httpx.AsyncClient) -> None:
    for name, fields in REFUSED_FIELDS:
        assert name in await refused(engine, body(**fields)), fields
    await goes_on(engine)


async def test_decoding_that_there_is_not_by_name(engine: httpx.AsyncClient) -> None:
    for name, dllm in WRONG_DLLM:
        assert name in await refused(engine, body({"custom_params": {"dllm": dllm}})), dllm
    await goes_on(engine)


async def test_all_at_once_are_named(engine: httpx.AsyncClient) -> None:
    message = await refused(engine, body({"regex": "a", "n": 2, "top_p": 0.5}, return_logprob=True))
    assert "cannot honour return_logprob, top_p, n, regex;" in message
    assert "custom_params.dllm.sampling" in message


async def test_a_stream_is_refused_by_an_error_event(engine: httpx.AsyncClient) -> None:
    async with engine.stream("POST", "/generate", json=body({"regex": "a"}, stream=True)) as response:
        lines = [line async for line in response.aiter_lines() if line.startswith("data: {")]
    (event,) = map(json.loads, (line.removeprefix("data: ") for line in lines))
    assert event["error"]["code"] == 400
    assert "regex" in event["error"]["message"]
    await goes_on(engine)


async def test_neutral_values_pass(engine: httpx.AsyncClient) -> None:
    for sampling in NEUTRAL:
        (await engine.post("/generate", json=body(sampling))).raise_for_status()


async def test_sglangs_own_requests_pass(engine: httpx.AsyncClient) -> None:
    (await engine.get("/health_generate")).raise_for_status()
    # What sglang.bench_serving sends, and what SGLang's OpenAI endpoints make of a request without sampling.
    bench = body({"ignore_eos": True}, lora_path=None, return_logprob=False, logprob_start_len=-1)
    (await engine.post("/generate", json=bench)).raise_for_status()
    chat = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
    (await engine.post("/v1/chat/completions", json=chat)).raise_for_status()
    completion = {"model": "m", "prompt": "hi", "max_tokens": 8, "temperature": 0}
    (await engine.post("/v1/completions", json=completion)).raise_for_status()


@pytest.mark.parametrize("stream", [False, True])
async def test_openai_endpoints_refuse_too(engine: httpx.AsyncClient, stream: bool) -> None:
    chat = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8, "stream": stream}
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("json_schema", {"response_format": {"type": "json_object"}}),
        ("logprob", {"logprobs": True}),
        ("n", {"n": 2}),
        ("temperature", {"temperature": 0.5}),
        ("sampling_seed", {"seed": 3}),
    ]
    for name, fields in wrong:
        response = await engine.post("/v1/chat/completions", json=chat | fields)
        assert response.status_code == 400, (name, response.text)
        assert name in response.text
    await goes_on(engine)


async def test_valid_decoding_in_one_batch(engine: httpx.AsyncClient) -> None:
    ways = [
        {"decision": {"algorithm": "JointThreshold", "parameters": {"threshold": 0.5}}},
        {"sampling": {"temperature": 0.7, "seed": 5}},
        {},
    ]
    requests = [body({"ignore_eos": True, "custom_params": {"dllm": dllm}}) for dllm in ways]
    answers = await asyncio.gather(*(engine.post("/generate", json=request) for request in requests))
    assert [len(answer.raise_for_status().json()["output_ids"]) for answer in answers] == [8, 8, 8]
