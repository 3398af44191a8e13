"""Every rule of what a request may say: HTTP status, type, param and code of each refusal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio
from pydantic import ValidationError

from dllm_stack.messages import ModelCard
from dllm_stack.queue import Registry
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings, Settings
from gateway.chat.protocol import ChatRequest
from gateway.completions.protocol import CompletionRequest
from gateway.generate.protocol import SamplingParams
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, serving, until

MESSAGES: Any = [{"role": "user", "content": "Hi"}]
CHAT = {"model": "tiny", "messages": MESSAGES}
COMPLETION = {"model": "tiny", "prompt": "Hi"}
GENERATE = {"text": "Hi"}
PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "generate": "/generate",
    "tokenize": "/tokenize",
    "detokenize": "/detokenize",
}

INVALID, MISSING, UNSUPPORTED = "invalid_value", "missing_required_parameter", "unsupported_parameter"

Case = tuple[dict[str, Any], str, str]  # change of a valid body, param, code

_ANY_OPENAI: list[Case] = [
    ({"temperature": 0.7}, "temperature", UNSUPPORTED),
    ({"temperature": "0"}, "temperature", INVALID),
    ({"temperature": False}, "temperature", INVALID),
    ({"temperature": 2.1}, "temperature", INVALID),
    ({"temperature": -1}, "temperature", INVALID),
    ({"top_p": 0.9}, "top_p", UNSUPPORTED),
    ({"top_p": 0}, "top_p", INVALID),
    ({"top_p": 1.5}, "top_p", INVALID),
    ({"top_k": -2}, "top_k", INVALID),
    ({"seed": 1}, "seed", UNSUPPORTED),
    ({"seed": 1.5}, "seed", INVALID),
    ({"seed": 2**63}, "seed", INVALID),
    ({"dllm": {"mode": "speed"}}, "dllm", UNSUPPORTED),
    ({"dllm": {"stats": True}}, "dllm", UNSUPPORTED),
    ({"dllm": {"stats": 1}}, "dllm.stats", INVALID),
    ({"dllm": "speed"}, "dllm", INVALID),
    ({"custom_params": {"dllm": {}}}, "custom_params", UNSUPPORTED),
    ({"presence_penalty": 0.1}, "presence_penalty", UNSUPPORTED),
    ({"frequency_penalty": -1}, "frequency_penalty", UNSUPPORTED),
    ({"repetition_penalty": 1.1}, "repetition_penalty", UNSUPPORTED),
    ({"logit_bias": {"5": 1}}, "logit_bias", UNSUPPORTED),
    ({"response_format": {"type": "json_object"}}, "response_format", UNSUPPORTED),
    ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format", UNSUPPORTED),
    ({"n": 0}, "n", INVALID),
    ({"n": 129}, "n", INVALID),
    ({"n": 1.0}, "n", INVALID),
    ({"n": True}, "n", INVALID),
    ({"min_p": 0.1}, "min_p", UNSUPPORTED),
    ({"top_k": 5}, "top_k", UNSUPPORTED),
    ({"min_tokens": 5}, "min_tokens", UNSUPPORTED),
    ({"regex": "a+"}, "regex", UNSUPPORTED),
    ({"ebnf": "root"}, "ebnf", UNSUPPORTED),
    ({"lora_path": "x"}, "lora_path", UNSUPPORTED),
    ({"surprise": 1}, "surprise", UNSUPPORTED),
    ({"surprise": None}, "surprise", UNSUPPORTED),
    ({"max_tokens": "5"}, "max_tokens", INVALID),
    ({"max_tokens": 5.0}, "max_tokens", INVALID),
    ({"max_tokens": True}, "max_tokens", INVALID),
    ({"max_tokens": 0}, "max_tokens", INVALID),
    ({"max_tokens": 10**30}, "max_tokens", INVALID),
    ({"max_tokens": 4097}, "max_tokens", "context_length_exceeded"),
    ({"stop": ""}, "stop", INVALID),
    ({"stop": ["a", ""]}, "stop", INVALID),
    ({"stop": ["a"] * 5}, "stop", INVALID),
    ({"stop": 5}, "stop", INVALID),
    ({"stop": "x" * 1001}, "stop", INVALID),
    ({"stop_token_ids": ["a"]}, "stop_token_ids[0]", INVALID),
    ({"stop_token_ids": ["a", "b"]}, "stop_token_ids[0]", INVALID),
    ({"stop_token_ids": [-1]}, "stop_token_ids[0]", INVALID),
    ({"stop_token_ids": [1] * 1025}, "stop_token_ids", INVALID),
    ({"stop_token_ids": [1], "ignore_eos": True}, "stop_token_ids", INVALID),
    ({"ignore_eos": 1}, "ignore_eos", INVALID),
    ({"stream": "true"}, "stream", INVALID),
    ({"stream_options": {"include_usage": True}}, "stream_options", INVALID),
    ({"stream": True, "stream_options": {"include_usage": "yes"}}, "stream_options.include_usage", INVALID),
    ({"stream": True, "stream_options": {"more": True}}, "stream_options.more", UNSUPPORTED),
    ({"model": 5}, "model", INVALID),
    ({"model": None}, "model", INVALID),
    ({"model": "none"}, "model", "model_not_found"),
    ({"model": "none:speed"}, "model", "model_not_found"),
    ({"model": "tiny:speed"}, "model", "model_not_found"),
    ({"model": "tiny:"}, "model", "model_not_found"),
]

_IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}


def _message(**fields: Any) -> dict[str, Any]:
    return {"messages": [MESSAGES[0], fields]}


def _tool(**function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", **function}}


def _call(arguments: str) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return _message(role="assistant", tool_calls=[call])


_CHAT: list[Case] = [
    ({"messages": MESSAGES * 10_001}, "messages", INVALID),
    ({"logprobs": True}, "logprobs", UNSUPPORTED),
    ({"top_logprobs": 3}, "top_logprobs", UNSUPPORTED),
    ({"tools": [_tool()]}, "tools", UNSUPPORTED),
    ({"tools": [_tool()], "tool_choice": "none"}, "tools", UNSUPPORTED),
    ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type", INVALID),
    ({"tools": [{"type": "function"}]}, "tools[0].function", MISSING),
    ({"tools": [_tool(name="")]}, "tools[0].function.name", INVALID),
    ({"tools": [_tool(name="a.b")]}, "tools[0].function.name", INVALID),
    ({"tools": [_tool(name="f" * 65)]}, "tools[0].function.name", INVALID),
    ({"tools": [_tool(), _tool(parameters=[])]}, "tools[1].function.parameters", INVALID),
    ({"tools": [_tool(parameters="{}")]}, "tools[0].function.parameters", INVALID),
    ({"tools": [_tool(parameters={"enum": ["a"] * 35_000})] * 2}, "tools", INVALID),
    ({"tools": [_tool(mood="good")]}, "tools[0].function.mood", UNSUPPORTED),
    ({"tools": [_tool()] * 129}, "tools", INVALID),
    ({"tool_choice": "always"}, "tool_choice", INVALID),
    ({"tool_choice": 5}, "tool_choice", INVALID),
    ({"parallel_tool_calls": "no"}, "parallel_tool_calls", INVALID),
    ({"functions": [{"name": "f"}]}, "functions", UNSUPPORTED),
    ({"function_call": {"name": "f"}}, "function_call", UNSUPPORTED),
    ({"return_token_ids": 1}, "return_token_ids", INVALID),
    (_call("{"), "messages[1].tool_calls[0].function.arguments", INVALID),
    (_call('"\\ud800"'), "messages[1].tool_calls[0].function.arguments", INVALID),
    ({"tool_choice": "required"}, "tool_choice", UNSUPPORTED),
    ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice", UNSUPPORTED),
    ({"modalities": ["audio"]}, "modalities", UNSUPPORTED),
    ({"reasoning_effort": "high"}, "reasoning_effort", UNSUPPORTED),
    ({"max_completion_tokens": 4097}, "max_completion_tokens", "context_length_exceeded"),
    ({"max_completion_tokens": 5, "max_tokens": 6}, "max_completion_tokens", INVALID),
    ({"messages": []}, "messages", INVALID),
    ({"messages": "Hi"}, "messages", INVALID),
    (_message(role="robot", content="x"), "messages[1].role", INVALID),
    (_message(content="x"), "messages[1].role", MISSING),
    (_message(role="user"), "messages[1].content", MISSING),
    (_message(role="assistant", content=None), "messages[1].content", MISSING),
    (_message(role="user", content=5), "messages[1].content", INVALID),
    (_message(role="user", content=[_IMAGE]), "messages[1].content[0]", UNSUPPORTED),
    (_message(role="user", content=["x"]), "messages[1].content[0]", INVALID),
    (_message(role="user", content=[{"type": "text"}]), "messages[1].content[0].text", INVALID),
    (_message(role="user", content="x", mood="good"), "messages[1].mood", UNSUPPORTED),
]

_COMPLETIONS: list[Case] = [
    ({"prompt": ""}, "prompt", INVALID),
    ({"prompt": []}, "prompt", INVALID),
    ({"prompt": ["a", 1]}, "prompt", INVALID),
    ({"prompt": [1, True]}, "prompt", INVALID),
    ({"prompt": [1, -2]}, "prompt", INVALID),
    ({"prompt": {"text": "a"}}, "prompt", INVALID),
    ({"prompt": ["a"] * 129}, "prompt", INVALID),
    ({"prompt": [1] * 4097}, "prompt", "context_length_exceeded"),
    ({"prompt": ["a"] * 65, "n": 2}, "n", INVALID),
    ({"logprobs": 0}, "logprobs", UNSUPPORTED),
    ({"best_of": 2}, "best_of", UNSUPPORTED),
    ({"echo": True}, "echo", UNSUPPORTED),
    ({"suffix": "end"}, "suffix", UNSUPPORTED),
]

_TOKENIZE: list[Case] = [
    ({"prompt": 5}, "prompt", INVALID),
    ({"prompt": []}, "prompt", INVALID),
    ({"prompt": None}, "prompt", MISSING),
    ({"prompt": ["a", 5]}, "prompt", INVALID),
    ({"messages": MESSAGES}, "messages", INVALID),
    ({"prompt": None, "messages": [{"role": "user", "content": 5}]}, "messages[0].content", INVALID),
    ({"prompt": None, "messages": MESSAGES, "tools": [_tool()]}, "tools", UNSUPPORTED),
    ({"tools": [_tool()]}, "tools", INVALID),
    ({"add_special_tokens": 1}, "add_special_tokens", INVALID),
    ({"add_generation_prompt": False}, "add_generation_prompt", UNSUPPORTED),
    ({"surprise": 1}, "surprise", UNSUPPORTED),
    ({"model": "none"}, "model", "model_not_found"),
]

_DETOKENIZE: list[Case] = [
    ({"tokens": "a"}, "tokens", INVALID),
    ({"tokens": [-1]}, "tokens", INVALID),
    ({"tokens": [1, [2]]}, "tokens", INVALID),
    ({"tokens": [[1], 2]}, "tokens", INVALID),
    ({"tokens": [[1]] * 129}, "tokens", INVALID),
    ({"skip_special_tokens": "yes"}, "skip_special_tokens", INVALID),
    ({"surprise": 1}, "surprise", UNSUPPORTED),
]

_GENERATE: list[Case] = [
    ({"text": 5}, "text", INVALID),
    ({"text": [1, 2]}, "text", INVALID),
    ({"text": "a", "input_ids": [1]}, "input_ids", INVALID),
    ({"text": None, "input_ids": ["a"]}, "input_ids", INVALID),
    ({"text": None, "input_ids": [1] * 4097}, "input_ids", "context_length_exceeded"),
    ({"text": None}, "text", MISSING),
    ({"return_logprob": True}, "return_logprob", UNSUPPORTED),
    ({"return_hidden_states": True}, "return_hidden_states", UNSUPPORTED),
    ({"image_data": "x"}, "image_data", UNSUPPORTED),
    ({"surprise": 1}, "surprise", UNSUPPORTED),
    ({"sampling_params": 5}, "sampling_params", INVALID),
    ({"sampling_params": {"temperature": 1}}, "sampling_params.temperature", UNSUPPORTED),
    ({"sampling_params": {"top_p": 0.5}}, "sampling_params.top_p", UNSUPPORTED),
    ({"sampling_params": {"top_k": 2}}, "sampling_params.top_k", UNSUPPORTED),
    ({"sampling_params": {"n": 2}}, "sampling_params.n", UNSUPPORTED),
    ({"sampling_params": {"sampling_seed": 2}}, "sampling_params.sampling_seed", UNSUPPORTED),
    ({"sampling_params": {"json_schema": "{}"}}, "sampling_params.json_schema", UNSUPPORTED),
    ({"sampling_params": {"custom_params": {"a": 1}}}, "sampling_params.custom_params.a", UNSUPPORTED),
    (
        {"sampling_params": {"custom_params": {"dllm": {"mode": "speed"}}}},
        "sampling_params.custom_params.dllm",
        UNSUPPORTED,
    ),
    ({"model": "tiny:speed"}, "model", "model_not_found"),
    ({"sampling_params": {"max_new_tokens": 0}}, "sampling_params.max_new_tokens", INVALID),
    ({"sampling_params": {"max_new_tokens": "9"}}, "sampling_params.max_new_tokens", INVALID),
    (
        {"sampling_params": {"stop_token_ids": [1], "ignore_eos": True}},
        "sampling_params.stop_token_ids",
        INVALID,
    ),
    ({"sampling_params": {"surprise": 1}}, "sampling_params.surprise", UNSUPPORTED),
    (
        {"sampling_params": {"max_new_tokens": 5000}},
        "sampling_params.max_new_tokens",
        "context_length_exceeded",
    ),
    ({"model": "none"}, "model", "model_not_found"),
]


def _id(endpoint: str, change: dict[str, Any]) -> str:
    return f"{endpoint} {change}" if len(str(change)) < 80 else f"{endpoint} long {next(iter(change))}"


CASES = [
    pytest.param(endpoint, {**valid, **change}, param, code, id=_id(endpoint, change))
    for endpoint, valid, cases in (
        ("chat", CHAT, [*_ANY_OPENAI, *_CHAT]),
        ("completions", COMPLETION, [*_ANY_OPENAI, *_COMPLETIONS]),
        ("generate", GENERATE, _GENERATE),
        ("tokenize", {"model": "tiny", "prompt": "Hi"}, _TOKENIZE),
        ("detokenize", {"model": "tiny", "tokens": [1]}, _DETOKENIZE),
    )
    for change, param, code in cases
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def refusing(redis_settings: RedisSettings) -> AsyncIterator[Served]:
    """A gateway that knows a model. It has no worker, as no request here gets that far."""
    connections = Connections(redis_settings)
    card = ModelCard(
        name="tiny",
        context_length=4096,
        block_size=32,
        algorithm="LowConfidence",
        created=0,
        capabilities=[],
    )
    await connections.commands.flushall()
    await Registry(connections).publish("tiny", card)
    await connections.aclose()
    async with serving(Settings(redis=redis_settings)) as served:
        await served.gateway.catalogue.refresh()
        yield served


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("endpoint", "body", "param", "code"), CASES)
async def test_a_refusal_names_its_parameter(
    refusing: Served, endpoint: str, body: dict[str, Any], param: str, code: str
) -> None:
    response = await refusing.http.post(PATHS[endpoint], json=body)
    assert response.status_code == (404 if code == "model_not_found" else 400)
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)
    assert param.rsplit(".")[-1].split("[")[0] in error["message"]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("field", ["tools", "messages"])
async def test_what_is_no_object(refusing: Served, field: str) -> None:
    response = await refusing.http.post(PATHS["chat"], json=CHAT | {field: [1]})
    assert response.json()["error"]["message"] == f"{field}[0] must be an object."


@pytest.mark.parametrize(
    ("endpoint", "field"), [("chat", "messages"), ("chat", "model"), ("completions", "prompt")]
)
async def test_required_fields(served: Served, answering: FakeWorker, endpoint: str, field: str) -> None:
    body: dict[str, Any] = {**(CHAT if endpoint == "chat" else COMPLETION)}
    del body[field]
    response = await served.http.post(PATHS[endpoint], json=body)
    assert response.status_code == 400
    assert response.json()["error"] == {
        "message": f"{field} is required.",
        "type": "invalid_request_error",
        "param": field,
        "code": MISSING,
    }


@pytest.mark.parametrize(
    "body", [b"", b"{", b"nonsense", b'{"a": NaN}', b'{"a": "\xff"}', b'{"a": "\\ud800"}', b"[" * 5000]
)
@pytest.mark.parametrize("path", PATHS.values())
async def test_bad_json(served: Served, path: str, body: bytes) -> None:
    response = await served.http.post(path, content=body)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_json"
    assert response.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("body", ["[]", "5", "null", '"text"'])
async def test_json_that_is_no_object(served: Served, body: str) -> None:
    response = await served.http.post(PATHS["chat"], content=body)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == INVALID


async def test_a_body_needs_no_content_type(served: Served, answering: FakeWorker) -> None:
    body = '{"text": "Hi"}'
    headers = {"content-type": "application/x-www-form-urlencoded"}  # what curl -d says
    assert (await served.http.post("/generate", content=body, headers=headers)).status_code == 200


async def test_the_sdk_sees_the_parameter(served: Served, answering: FakeWorker) -> None:
    with pytest.raises(openai.BadRequestError) as error:
        await served.openai.chat.completions.create(model="tiny", messages=MESSAGES, temperature=0.5)
    assert (error.value.param, error.value.code) == ("temperature", UNSUPPORTED)
    assert error.value.type == "invalid_request_error"
    with pytest.raises(openai.NotFoundError) as missing:
        await served.openai.chat.completions.create(model="gpt", messages=MESSAGES)
    assert (missing.value.param, missing.value.code) == ("model", "model_not_found")


async def test_unknown_routes_and_methods(served: Served) -> None:
    response = await served.http.get("/v1/nothing")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"
    response = await served.http.get("/v1/chat/completions")
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert response.json()["error"]["code"] == "method_not_allowed"


async def test_generate_without_a_model(served: Served, worker: FakeWorker) -> None:
    response = asyncio.create_task(served.http.post("/generate", json=GENERATE))
    await (await worker.claimed()).finish()
    assert (await response).status_code == 200
    await worker.announce("second")
    await until(lambda: served.gateway.catalogue.label("second") == "second")
    refused = await served.http.post("/generate", json=GENERATE)
    assert refused.status_code == 400
    assert (refused.json()["error"]["param"], refused.json()["error"]["code"]) == ("model", MISSING)


async def test_generate_without_any_model(served: Served) -> None:
    response = await served.http.post("/generate", json=GENERATE)
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "no_worker"
    assert int(response.headers["retry-after"]) > 0


async def test_a_declared_body_too_large_is_refused_unread(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n{")
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in head
    assert b'"code":"body_too_large"' in await asyncio.wait_for(reader.readuntil(b"}}"), 120)
    writer.close()


async def test_an_undeclared_body_too_large_is_refused_halfway(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(b"POST /generate HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    writer.write(b"20000\r\n" + b"x" * 0x20000 + b"\r\n")  # and no end
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)
    assert head.startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_a_client_that_sends_on_still_reads_the_refusal(served: Served) -> None:
    with pytest.raises(openai.APIStatusError) as error:
        await served.openai.completions.create(model="tiny", prompt="x" * 20_000_000)
    assert (error.value.status_code, error.value.code) == (413, "body_too_large")


def test_a_list_is_read_up_to_its_first_wrong_element() -> None:
    """A million errors, one an element, would hold the gateway up for seconds."""
    for schema, field, wrong in (
        (ChatRequest, "messages", 0),
        (ChatRequest, "stop_token_ids", ""),
        (CompletionRequest, "stop_token_ids", ""),
        (SamplingParams, "stop_token_ids", ""),
    ):
        with pytest.raises(ValidationError) as caught:
            schema.model_validate({field: [wrong] * 1000})
        assert len([error for error in caught.value.errors() if error["loc"][0] == field]) == 1
