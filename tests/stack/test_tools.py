"""Tools, choices and tokenizing with a model that knows them, on the real engine."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
from openai import AsyncOpenAI
from openai.lib.streaming.chat import ChatCompletionStreamState

from loadtest.local_stack import LocalStack
from models.demo.data.tools import TOOLS

WEATHER: Any = [{"role": "user", "content": "What is the weather in Oslo?"}]
OFFERED: Any = [TOOLS["get_weather"], TOOLS["add"]]


async def test_a_call_and_what_is_made_of_its_result(client: AsyncOpenAI, model: str) -> None:
    asked: Any = {"model": model, "tools": OFFERED}
    whole = await client.chat.completions.create(messages=WEATHER, **asked)
    (choice,) = whole.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Oslo"})

    state: Any = ChatCompletionStreamState()
    async for chunk in await client.chat.completions.create(messages=WEATHER, stream=True, **asked):
        state.handle_chunk(chunk)
    streamed = state.get_final_completion().choices[0].message
    assert streamed.tool_calls[0].function.name == call.function.name
    assert streamed.tool_calls[0].function.arguments == call.function.arguments

    result = {"weather": "sunny", "degrees": 21}
    told: Any = {"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)}
    report = await client.chat.completions.create(messages=[*WEATHER, choice.message, told], **asked)
    assert report.choices[0].message.content == "It is sunny in Oslo, 21 degrees."
    assert report.choices[0].finish_reason == "stop"


async def test_a_call_in_chinese_comes_whole(client: AsyncOpenAI, model: str) -> None:
    asked: Any = {"model": model, "tools": OFFERED, "n": 2, "stream": True}
    question: Any = [{"role": "user", "content": "告诉我北京的天气"}]
    state: Any = ChatCompletionStreamState()
    async for chunk in await client.chat.completions.create(messages=question, **asked):
        state.handle_chunk(chunk)
    for choice in state.get_final_completion().choices:
        (call,) = choice.message.tool_calls
        assert json.loads(call.function.arguments) == {"city": "北京"}


async def test_choices_and_their_token_ids(
    client: AsyncOpenAI, stack: LocalStack, http: aiohttp.ClientSession, model: str
) -> None:
    async def ask(path: str, **body: Any) -> Any:
        async with http.post(f"{stack.gateway_url}{path}", json={"model": model, **body}) as response:
            return await response.json()

    question = {"messages": [{"role": "user", "content": "Count from 1 to 12"}], "return_token_ids": True}
    answer = await ask("/v1/chat/completions", **question, n=2)
    first, second = answer["choices"]
    assert {**first, "index": 1} == second
    assert answer["usage"]["completion_tokens"] == 2 * len(first["token_ids"])

    stopped = await ask("/v1/chat/completions", **question, n=2, stop=[" 7"])
    assert [choice["message"]["content"] for choice in stopped["choices"]] == ["1, 2, 3, 4, 5, 6,"] * 2

    # It is unsure of what it was never asked.
    unsure = {"prompt": "Purple", "max_tokens": 24, "temperature": 2, "seed": 1}
    drawn = (await ask("/v1/completions", **unsure, n=3))["choices"]
    assert len({choice["text"] for choice in drawn}) == 3
    assert (await ask("/v1/completions", **unsure))["choices"] == drawn[:1]
    assert (await ask("/v1/completions", **unsure, n=2))["choices"] == drawn[:2]

    tokenized = await ask("/tokenize", messages=question["messages"])
    assert tokenized["count"] == len(tokenized["tokens"]) == answer["usage"]["prompt_tokens"]
    assert tokenized["max_model_len"] == 2046
    text = (await ask("/detokenize", tokens=first["token_ids"]))["text"]
    assert text == first["message"]["content"]
