"""Decoding as each request asks, by the OpenAI SDK, on the real engine: modes, sampling, statistics."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam

from loadtest.local_stack import LocalStack

QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Write the number from 1 to 128"}]
OTHER: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is 487 + 96 * 7?"}]
TOKENS = 80


async def ask(client: AsyncOpenAI, model: str, dllm: dict[str, Any] | None = None, **how: Any) -> Any:
    """The answer to QUESTION unless there are other messages."""
    body = {"messages": QUESTION, "max_tokens": TOKENS, **how}
    if dllm is not None:
        body["extra_body"] = {"dllm": dllm}
    return await client.chat.completions.create(model=model, **body)


def text_of(answer: ChatCompletion) -> str:
    content = answer.choices[0].message.content
    assert content
    return content


def cost_of(answer: Any) -> dict[str, Any]:
    cost: dict[str, Any] = answer.dllm
    return cost


async def test_the_models_modes_are_listed(client: AsyncOpenAI, model: str) -> None:
    decoding = (await client.models.retrieve(model)).model_dump()["decoding"]
    assert decoding["modes"].keys() == {"speed", "quality"}
    assert decoding["default"] == decoding["modes"]["quality"]
    assert {"LowConfidence", "JointThreshold", "EntropyBounded", "Hierarchical", "Credit"} <= decoding[
        "algorithms"
    ].keys()


async def test_an_alias_is_the_mode_is_its_parameters(client: AsyncOpenAI, model: str) -> None:
    decoding = (await client.models.retrieve(model)).model_dump()["decoding"]
    for mode in ("speed", "quality"):
        ways: list[tuple[str, dict[str, Any]]] = [
            (f"{model}:{mode}", {}),
            (model, {"mode": mode}),
            (model, decoding["modes"][mode]),
        ]
        answers = [await ask(client, name, {**dllm, "stats": True}) for name, dllm in ways]
        assert [answer.model for answer in answers] == [name for name, _ in ways]
        assert len({text_of(answer) for answer in answers}) == 1
        assert [cost_of(answer) for answer in answers] == [cost_of(answers[0])] * 3
    assert text_of(await ask(client, model)) == text_of(answers[0])


async def test_requests_of_one_batch_decode_each_as_it_asks(client: AsyncOpenAI, model: str) -> None:
    ways: list[dict[str, Any]] = [
        {"mode": "speed"},
        {"mode": "quality"},
        {"threshold": 0.5},
        {"algorithm": "EntropyBounded"},
        {"algorithm": "Hierarchical"},
        {"algorithm": "Credit"},
    ]
    ways = [{**way, "stats": True} for way in ways]
    alone = [await ask(client, model, way) for way in ways]
    together = await asyncio.gather(*(ask(client, model, way) for way in ways))
    assert [text_of(each) for each in together] == [text_of(each) for each in alone]
    assert [cost_of(each) for each in together] == [cost_of(each) for each in alone]
    careful = await ask(client, model, {"threshold": 1, "stats": True})
    assert cost_of(careful)["forwards"] > 2 * cost_of(alone[1])["forwards"]


async def test_a_seed_reproduces_an_answer(client: AsyncOpenAI, model: str) -> None:
    how: dict[str, Any] = {"messages": OTHER, "temperature": 2, "dllm": {"threshold": 0.99}}
    first = await ask(client, model, **how, seed=7)
    beside = await asyncio.gather(
        ask(client, model, **how, seed=7),
        ask(client, f"{model}:speed"),
        *(ask(client, model, **how, seed=seed) for seed in range(100, 104)),
    )
    assert text_of(beside[0]) == text_of(first)
    assert len({text_of(each) for each in beside[2:]}) > 1
    unseeded = await asyncio.gather(*(ask(client, model, **how) for _ in range(8)))
    assert len({text_of(each) for each in unseeded}) > 1


@pytest.mark.parametrize("stop", [None, ", 9"])
async def test_streamed_ids_usage_and_statistics_agree(
    stack: LocalStack, http: aiohttp.ClientSession, client: AsyncOpenAI, model: str, stop: str | None
) -> None:
    whole = await ask(client, model, {"stats": True}, stop=stop)
    stream = await ask(
        client, model, {"stats": True}, stop=stop, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert cost_of(chunks[-1]) == cost_of(whole)
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    cost = cost_of(whole)
    assert cost["tokens"] == whole.usage.completion_tokens
    assert cost["blocks"] == len(cost["per_block"]) > 1
    for name in ("tokens", "forwards", "steps", "edits"):
        assert cost[name] == sum(block[name] for block in cost["per_block"])
    assert all(1 <= block["steps"] <= block["forwards"] for block in cost["per_block"])
    assert cost["tokens_per_forward"] == pytest.approx(cost["tokens"] / cost["forwards"])
    generate = {
        "model": model,
        "input_ids": list(range(300, 340)),
        "sampling_params": {
            "max_new_tokens": TOKENS,
            "ignore_eos": True,
            "custom_params": {"dllm": {"stats": True}},
        },
    }
    async with http.post(f"{stack.gateway_url}/generate", json=generate) as response:
        answer = await response.json()
    meta = answer["meta_info"]
    assert len(answer["output_ids"]) == meta["completion_tokens"] == meta["dllm"]["tokens"] == TOKENS


@pytest.mark.parametrize(
    ("change", "kind", "param"),
    [
        ({"model": ":turbo"}, openai.NotFoundError, "model"),
        ({"dllm": {"mode": "turbo"}}, openai.BadRequestError, "dllm.mode"),
        ({"dllm": {"threshold": 2}}, openai.BadRequestError, "dllm.threshold"),
        ({"model": ":speed", "temperature": 0.5}, openai.BadRequestError, "temperature"),
    ],
)
async def test_a_wrong_way_to_decode_is_refused_by_name(
    client: AsyncOpenAI,
    model: str,
    change: dict[str, Any],
    kind: type[openai.APIStatusError],
    param: str,
) -> None:
    name = model + change.get("model", "")
    rest = {field: value for field, value in change.items() if field != "model"}
    with pytest.raises(kind) as caught:
        await ask(client, name, **rest)
    assert caught.value.param == param
