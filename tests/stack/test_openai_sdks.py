"""The real OpenAI SDKs, Python (the engine's own and the newest) and Node, against the real engine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam
from transformers import AutoTokenizer

from loadtest.local_stack import LocalStack

CLIENTS = Path(__file__).parent / "clients"
NEWEST_PYTHON_SDK = "openai==3.57.0"
NODE_SDK = "openai@7.59.0"
QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Write the number from 1 to 128"}]
TOKENS = 80
REFUSED = {
    "status": 400,
    "code": "unsupported_parameter",
    "param": "presence_penalty",
    "type": "invalid_request_error",
}


@pytest.fixture
async def generated(stack: LocalStack, http: aiohttp.ClientSession, model: str) -> dict[str, Any]:
    """The answer to QUESTION as /generate gives it, token ids and all."""
    tokenizer = AutoTokenizer.from_pretrained(stack.checkpoint, trust_remote_code=True)
    text = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, tokenize=False)
    body = {"model": model, "text": text, "sampling_params": {"max_new_tokens": TOKENS, "temperature": 0}}
    async with http.post(f"{stack.gateway_url}/generate", json=body) as response:
        answer: dict[str, Any] = await response.json()
    assert len(answer["output_ids"]) == answer["meta_info"]["completion_tokens"]
    assert answer["meta_info"]["prompt_tokens"] == len(tokenizer(text, add_special_tokens=False).input_ids)
    return answer


async def test_an_answer_at_once_and_streamed_are_the_same(
    client: AsyncOpenAI, model: str, generated: dict[str, Any]
) -> None:
    whole = await client.chat.completions.create(model=model, messages=QUESTION, max_tokens=TOKENS)
    assert whole.choices[0].message.content == generated["text"]
    assert whole.choices[0].finish_reason == generated["meta_info"]["finish_reason"]["type"]
    assert whole.usage is not None
    assert whole.usage.completion_tokens == len(generated["output_ids"])
    assert whole.usage.prompt_tokens == generated["meta_info"]["prompt_tokens"]

    stream = await client.chat.completions.create(
        model=model,
        messages=QUESTION,
        max_tokens=TOKENS,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(pieces) == generated["text"]
    assert len([piece for piece in pieces if piece]) > 1
    assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == len(generated["output_ids"])


async def test_completions_stream_what_they_answer(client: AsyncOpenAI, model: str) -> None:
    whole = await client.completions.create(model=model, prompt="The Great Wall", max_tokens=TOKENS)
    stream = await client.completions.create(
        model=model, prompt="The Great Wall", max_tokens=TOKENS, stream=True
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert all(chunk.usage is None for chunk in chunks)


async def test_a_stop_string_ends_the_answer_and_does_not_leak(
    client: AsyncOpenAI, model: str, generated: dict[str, Any]
) -> None:
    text: str = generated["text"]
    stop = text[len(text) // 2 :][:6]
    stream = await client.chat.completions.create(
        model=model,
        messages=QUESTION,
        max_tokens=TOKENS,
        stop=[stop],
        stream=True,
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text[: text.index(stop)]
    assert chunks[-1].choices[0].finish_reason == "stop"


REFUSALS: list[tuple[dict[str, Any], type[openai.APIStatusError], str, str]] = [
    ({"model": "gpt-9"}, openai.NotFoundError, "model_not_found", "model"),
    ({"messages": []}, openai.BadRequestError, "invalid_value", "messages"),
    ({"max_tokens": "many"}, openai.BadRequestError, "invalid_value", "max_tokens"),
    ({"temperature": 2.5}, openai.BadRequestError, "invalid_value", "temperature"),
    ({"top_p": 0.9}, openai.BadRequestError, "unsupported_parameter", "top_p"),
    ({"seed": 1}, openai.BadRequestError, "unsupported_parameter", "seed"),
    ({"presence_penalty": 1}, openai.BadRequestError, "unsupported_parameter", "presence_penalty"),
    ({"frequency_penalty": 1}, openai.BadRequestError, "unsupported_parameter", "frequency_penalty"),
    ({"logit_bias": {"5": 1}}, openai.BadRequestError, "unsupported_parameter", "logit_bias"),
    ({"logprobs": True}, openai.BadRequestError, "unsupported_parameter", "logprobs"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}},
        openai.BadRequestError,
        "unsupported_parameter",
        "response_format",
    ),
    ({"tool_choice": "required"}, openai.BadRequestError, "unsupported_parameter", "tool_choice"),
    (
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        openai.BadRequestError,
        "unsupported_parameter",
        "tool_choice",
    ),
    (
        {"messages": [{"role": "user", "content": "long " * 4000}]},
        openai.BadRequestError,
        "context_length_exceeded",
        "messages",
    ),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("change", "kind", "code", "param"), REFUSALS, ids=lambda value: str(value)[:40])
async def test_what_cannot_be_done_is_refused_by_name(
    client: AsyncOpenAI,
    model: str,
    stream: bool,
    change: dict[str, Any],
    kind: type[openai.APIStatusError],
    code: str,
    param: str,
) -> None:
    body: dict[str, Any] = {"model": model, "messages": QUESTION, "stream": stream} | change
    with pytest.raises(kind) as caught:
        await client.chat.completions.create(**body)
    assert (caught.value.code, caught.value.param) == (code, param)
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    ("body", "code"),
    [(b'{"model": ', "invalid_json"), (b'{"model": "dllm-demo"}', "missing_required_parameter")],
)
async def test_a_broken_body_is_refused(
    stack: LocalStack, http: aiohttp.ClientSession, body: bytes, code: str
) -> None:
    headers = {"Content-Type": "application/json"}
    async with http.post(f"{stack.gateway_url}/v1/chat/completions", data=body, headers=headers) as response:
        assert response.status == 400
        error = (await response.json())["error"]
    assert error["code"] == code
    assert set(error) == {"message", "type", "param", "code"}


@pytest.fixture(scope="session")
def newest_python_sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the newest SDK; SGLang pins an older one in this environment."""
    folder = tmp_path_factory.mktemp("newest-sdk")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", NEWEST_PYTHON_SDK], check=True)
    return python


@pytest.mark.timeout(240)
def test_the_newest_python_sdk(
    stack: LocalStack,
    model: str,
    newest_python_sdk: Path,
    generated: dict[str, Any],
    record: Callable[[str], None],
) -> None:
    run = subprocess.run(
        [newest_python_sdk, CLIENTS / "newest_sdk.py", f"{stack.gateway_url}/v1", model],
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(run.stdout)
    assert seen["whole"] == seen["streamed"] == generated["text"]
    assert seen["whole_tokens"] == seen["streamed_tokens"] == len(generated["output_ids"])
    assert seen["refused"] == REFUSED
    record(f"openai-python {seen['version']}: {seen['streamed_tokens']} tokens in {seen['chunks']} chunks")


@pytest.mark.timeout(240)
@pytest.mark.skipif(shutil.which("npm") is None, reason="openai-node needs Node.js and npm")
def test_the_node_sdk(
    stack: LocalStack,
    model: str,
    tmp_path: Path,
    generated: dict[str, Any],
    record: Callable[[str], None],
) -> None:
    shutil.copy(CLIENTS / "stream.mjs", tmp_path)
    install = ["npm", "install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund"]
    subprocess.run([*install, "--prefix", tmp_path, NODE_SDK], check=True, capture_output=True)
    run = subprocess.run(
        ["node", tmp_path / "stream.mjs", f"{stack.gateway_url}/v1", model],
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(run.stdout)
    assert seen["streamed"] == generated["text"]
    assert seen["streamed_tokens"] == len(generated["output_ids"])
    assert seen["refused"] == REFUSED
    record(f"{NODE_SDK} (Node): {seen['streamed_tokens']} tokens in {seen['chunks']} chunks")
