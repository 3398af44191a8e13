"""Tools: what the model is shown, and what the client gets of what it writes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState

from dllm_stack.messages import ChatPrompt
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served
from tests.gateway.test_gateway_answers import MESSAGES, events

pytestmark = pytest.mark.asyncio(loop_scope="module")

Pair = tuple[Served, FakeWorker]
PATH = "/v1/chat/completions"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "default": None}}, "required": ["city"]}
WEATHER: Any = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather", "parameters": SCHEMA},
}
TIME: Any = {"type": "function", "function": {"name": "get_time"}}
CHAT = {"model": "tiny", "messages": MESSAGES, "tools": [WEATHER, TIME]}


def call(name: str, **arguments: Any) -> str:
    written = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"\n<tool_call>\n{written}\n</tool_call>"


async def answered(pair: Pair, blocks: list[str], reason: str = "stop", **asked: Any) -> Any:
    """The response to a request that the model answers in these blocks."""
    served, worker = pair
    request = asyncio.create_task(served.http.post(PATH, json={**CHAT, **asked}))
    run = await worker.claimed()
    for block in blocks:
        await run.commit(block, tokens=len(block))
    await run.finish(reason)
    response = await request
    assert response.status_code == 200, response.text
    return response


async def only_choice(pair: Pair, blocks: list[str], reason: str = "stop", **asked: Any) -> Any:
    """The one choice of an answer, which is the same streamed and not."""
    (whole,) = (await answered(pair, blocks, reason, **asked)).json()["choices"]
    chunks = events((await answered(pair, blocks, reason, **asked, stream=True)).text)
    for one in whole["message"].get("tool_calls", []):
        del one["id"]
    assert joined(chunks) == whole
    return whole


def joined(chunks: list[Any]) -> Any:
    """What a client makes of deltas, by OpenAI's rules."""
    content: str | None = None
    calls: list[Any] = []
    *deltas, last = [chunk["choices"][0] for chunk in chunks]
    assert deltas[0]["delta"]["role"] == "assistant"
    for choice in deltas:
        assert choice["finish_reason"] is None
        if (more := choice["delta"].get("content")) is not None:
            content = (content or "") + more
        for part in choice["delta"].get("tool_calls", []):
            if part["index"] == len(calls):
                assert part.keys() == {"index", "id", "type", "function"}
                assert part["function"]["arguments"] == ""
                calls.append({"type": part["type"], "function": part["function"]})
            else:
                assert part.keys() == {"index", "function"}
                assert part["function"].keys() == {"arguments"}
                calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if calls:
        message["tool_calls"] = calls
    return {
        "message": message,
        "finish_reason": last["finish_reason"],
        "index": last["index"],
        "logprobs": None,
    }


async def test_the_model_is_shown_the_tools(pair: Pair) -> None:
    served, worker = pair
    for asked, shown in (
        ({}, [WEATHER, TIME]),
        ({"tool_choice": "auto"}, [WEATHER, TIME]),
        ({"tool_choice": "none"}, None),
        ({"tools": []}, None),
        ({"tools": None}, None),
    ):
        request = asyncio.create_task(served.http.post(PATH, json={**CHAT, **asked}))
        run = await worker.claimed()
        assert run.job.prompt == ChatPrompt(MESSAGES, shown)
        await run.finish()
        assert (await request).status_code == 200


async def test_a_call_and_nothing_else(pair: Pair) -> None:
    choice = await only_choice(pair, list(call("get_weather", city="巴黎")))
    assert choice["message"]["content"] is None
    function = {"name": "get_weather", "arguments": '{"city": "巴黎"}'}
    assert choice["message"]["tool_calls"] == [{"function": function, "type": "function"}]
    assert choice["finish_reason"] == "tool_calls"


async def test_text_and_two_calls(pair: Pair) -> None:
    answer = "I look it up." + call("get_weather", city="Rome") + call("get_time", city="Rome")
    for size in (1, 7, 32, 1000):
        choice = await only_choice(pair, [answer[at : at + size] for at in range(0, len(answer), size)])
        assert choice["message"]["content"] == "I look it up."
        called = [one["function"] for one in choice["message"]["tool_calls"]]
        assert [(one["name"], json.loads(one["arguments"])) for one in called] == [
            ("get_weather", {"city": "Rome"}),
            ("get_time", {"city": "Rome"}),
        ]


async def test_only_the_first_call(pair: Pair) -> None:
    answer = call("get_weather", city="Rome") + call("get_time", city="Rome") + " Done."
    choice = await only_choice(pair, list(answer), parallel_tool_calls=False)
    assert [one["function"]["name"] for one in choice["message"]["tool_calls"]] == ["get_weather"]
    assert choice["message"]["content"] == " Done."
    assert choice["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (call("rm", path="/"), "stop"),
        ('\n<tool_call>\n{"name": "get_wea', "length"),
        ("\n<tool_call>\nnonsense\n</tool_call>", "stop"),
        ("1 < 2 and <tool_", "length"),
        ("", "stop"),
    ],
)
async def test_what_is_no_call_is_text(pair: Pair, answer: str, reason: str) -> None:
    (choice,) = (await answered(pair, [answer], reason)).json()["choices"]
    assert choice["message"] == {"role": "assistant", "content": answer, "refusal": None}
    assert choice["finish_reason"] == reason


async def test_a_call_that_is_cut(pair: Pair) -> None:
    choice = await only_choice(pair, [call("get_weather", city="Rome").partition('me"}')[0]], "length")
    (one,) = choice["message"]["tool_calls"]
    assert one["function"]["arguments"] == '{"city": "Ro'
    assert choice["finish_reason"] == "length"


async def test_without_tools_nothing_is_read_into_the_text(pair: Pair) -> None:
    answer = call("get_weather", city="Rome")
    for asked in ({"tools": None}, {"tool_choice": "none"}):
        choice = await only_choice(pair, [answer], **asked)
        assert choice["message"]["content"] == answer
        assert choice["finish_reason"] == "stop"


async def test_arguments_are_sent_as_they_are_committed(pair: Pair) -> None:
    served, worker = pair

    async def begin() -> Any:
        return await served.openai.chat.completions.create(**CHAT, stream=True)

    request = asyncio.create_task(begin())
    run = await worker.claimed()
    await run.commit('One moment. \n<tool_call>\n{"name": "get_weather", "arguments": {"ci')
    stream = await asyncio.wait_for(request, 120)
    deltas = [(await asyncio.wait_for(anext(stream), 120)).choices[0].delta for _ in range(3)]
    assert deltas[0].content == "One moment."
    (first,) = deltas[1].tool_calls
    assert (first.index, first.type, first.function.name, first.function.arguments) == (
        0,
        "function",
        "get_weather",
        "",
    )
    assert first.id.startswith("call_")
    assert deltas[2].tool_calls[0].function.arguments == '{"ci'
    await run.commit('ty": "Ro')
    (more,) = (await asyncio.wait_for(anext(stream), 120)).choices[0].delta.tool_calls
    assert (more.index, more.id, more.function.arguments) == (0, None, 'ty": "Ro')
    await run.commit('me"}}\n</tool_call>')
    await run.finish()
    rest = [chunk.choices[0] async for chunk in stream]
    assert rest[0].delta.tool_calls[0].function.arguments == 'me"}'
    assert [choice.finish_reason for choice in rest] == [None, "tool_calls"]


async def test_each_choice_has_calls_of_its_own(pair: Pair) -> None:
    answer = call("get_weather", city="Rome") + call("get_time", city="Rome")
    choices = (await answered(pair, [answer], n=3)).json()["choices"]
    ids = [one["id"] for choice in choices for one in choice["message"]["tool_calls"]]
    assert len(set(ids)) == 6
    chunks = events((await answered(pair, [answer], n=3, stream=True)).text)
    for index in range(3):
        own = [chunk for chunk in chunks if chunk["choices"][0]["index"] == index]
        assert len(joined(own)["message"]["tool_calls"]) == 2


async def test_token_ids_beside_calls(pair: Pair) -> None:
    answer = "Well." + call("get_time")
    blocks = [answer[:20], answer[20:55], answer[55:]]
    whole = (await answered(pair, blocks, return_token_ids=True)).json()["choices"][0]
    assert whole["token_ids"] == list(range(len(answer)))
    response = await answered(pair, blocks, return_token_ids=True, stream=True)
    ids = [chunk["choices"][0]["token_ids"] for chunk in events(response.text)]
    assert [id for each in ids for id in each] == whole["token_ids"]


async def test_the_sdks_own_stream_and_the_way_back(pair: Pair) -> None:
    served, worker = pair

    async def ask(messages: Any) -> Any:
        asked = {**CHAT, "messages": messages}
        state: Any = ChatCompletionStreamState()
        async for chunk in await served.openai.chat.completions.create(**asked, stream=True):
            state.handle_chunk(chunk)
        return state.get_final_completion().choices[0].message

    request = asyncio.create_task(ask(MESSAGES))
    run = await worker.claimed()
    for piece in call("get_weather", city="Rome"):
        await run.commit(piece)
    await run.finish()
    message = await request
    (called,) = message.tool_calls
    assert json.loads(called.function.arguments) == {"city": "Rome"}

    result = {"role": "tool", "tool_call_id": called.id, "content": '{"degrees": 21}'}
    request = asyncio.create_task(ask([*MESSAGES, message.to_dict(exclude_none=True), result]))
    run = await worker.claimed()
    assert isinstance(run.job.prompt, ChatPrompt)
    _, back, last = run.job.prompt.messages
    assert back["tool_calls"] == [
        {
            "id": called.id,
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
        }
    ]
    assert last == result
    await run.commit("It is 21 degrees.")
    await run.finish()
    assert (await request).content == "It is 21 degrees."
