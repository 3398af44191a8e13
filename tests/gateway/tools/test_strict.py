"""Tools whose calls must follow their schema: held to it where the engine can, refused where it cannot."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import xgrammar
from pydantic import BaseModel

from dllm_stack.capabilities import Capability
from dllm_stack.decoding import Grammar, GrammarKind
from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, until

END = 128  # the token that ends an answer; the others are characters


class Weather(BaseModel):
    """The weather in a city."""

    city: str


STRICT: Any = openai.pydantic_function_tool(Weather, name="weather")
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
LOOSE: Any = {"type": "function", "function": {"name": "wait", "strict": False}}


@pytest.fixture
async def worker(connections: Connections, settings: Settings) -> AsyncIterator[FakeWorker]:
    able = [Capability.STRICT, Capability.RESPONSE_FORMAT]
    worker = FakeWorker(connections, settings.queue, tools="tool_call_tags", autoregressive=list(able))
    async with worker.working():
        yield worker


async def refused(served: Served, tools: list[Any], **more: Any) -> tuple[str | None, str | None, str]:
    messages = [{"role": "user", "content": "Hi"}]
    await until(served.gateway.catalogue.all)
    response = await served.http.post(
        "/v1/chat/completions", json={"model": "tiny", "messages": messages, "tools": tools, **more}
    )
    assert response.status_code == 400
    error = response.json()["error"]
    return error["param"], error["code"], error["message"]


async def test_the_engine_is_told_the_form_of_the_calls(served: Served, worker: FakeWorker) -> None:
    await until(served.gateway.catalogue.all)
    messages: Any = [{"role": "user", "content": "Hi"}]
    chat = {"model": "tiny", "messages": messages, "tools": [LOOSE, STRICT]}
    request = asyncio.create_task(served.http.post("/v1/chat/completions", json=chat))
    run = await worker.claimed()
    await run.finish()
    assert (await request).status_code == 200
    grammar = run.job.decoding.token_by_token.grammar
    assert grammar is not None
    allows = _allows(grammar)
    assert allows(CALL)
    assert allows(f"Let me see. {CALL}\n{CALL}")
    assert allows('<tool_call>\n{"name": "wait", "arguments": {"s": [1]}}\n</tool_call>')
    assert allows("No <tool> is needed.")
    assert not allows(CALL.replace("city", "town"))
    assert not allows(CALL.replace('"Paris"', "7"))
    assert not allows(CALL.replace("weather", "whether"))
    assert not allows(CALL.removesuffix("</tool_call>"))


async def test_the_sdk_reads_the_arguments(served: Served, worker: FakeWorker) -> None:
    await until(served.gateway.catalogue.all)
    messages: Any = [{"role": "user", "content": "Hi"}]
    parse = served.openai.chat.completions.parse(model="tiny", messages=messages, tools=[STRICT])
    request = asyncio.create_task(parse)
    run = await worker.claimed()
    await run.commit(CALL)
    await run.finish()
    calls = (await request).choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].function.parsed_arguments == Weather(city="Paris")


def _allows(grammar: Grammar) -> Any:
    assert grammar.kind is GrammarKind.STRUCTURAL_TAG
    asked = json.loads(grammar.text)
    tags = [
        xgrammar.StructuralTagItem(begin=each["begin"], schema=json.dumps(each["schema"]), end=each["end"])
        for each in asked["structures"]
    ]
    tag = xgrammar.StructuralTag.from_legacy_structural_tag(tags, asked["triggers"])
    tokens = xgrammar.TokenizerInfo([*map(chr, range(END)), "</s>"], stop_token_ids=[END])
    compiled = xgrammar.GrammarCompiler(tokens).compile_structural_tag(tag)

    def allows(text: str) -> bool:
        matcher = xgrammar.GrammarMatcher(compiled)
        return all(matcher.accept_token(token) for token in [*text.encode(), END])

    return allows


@pytest.mark.parametrize("autoregressive", [None, []])
async def test_a_model_that_cannot_says_so(
    connections: Connections, settings: Settings, served: Served, autoregressive: list[str] | None
) -> None:
    worker = FakeWorker(
        connections, settings.queue, tools="tool_call_tags", autoregressive=autoregressive, blocks=["Hi"]
    )
    async with worker.working():
        param, code, message = await refused(served, [LOOSE, STRICT])
        assert (param, code) == ("tools[1].function.strict", "unsupported_parameter")
        assert message.endswith("arguments may differ from their schema; leave it out, and check them.")
        messages = [{"role": "user", "content": "Hi"}]
        unused = {"model": "tiny", "messages": messages, "tools": [STRICT], "tool_choice": "none"}
        assert (await served.http.post("/v1/chat/completions", json=unused)).status_code == 200


@pytest.mark.parametrize(
    ("parameters", "more", "param"),
    [
        ({"$ref": "http://x/y"}, {}, "tools[0].function.parameters"),
        ({"enum": ["x" * 70_000]}, {}, "tools[0].function.parameters"),
        ({}, {"response_format": {"type": "json_object"}}, "tools"),
    ],
)
async def test_what_cannot_be_followed_is_refused(
    served: Served, worker: FakeWorker, parameters: Any, more: Any, param: str
) -> None:
    tool: Any = {"type": "function", "function": {"name": "f", "strict": True, "parameters": parameters}}
    assert (await refused(served, [tool], **more))[0] == param
    if "response_format" not in more:  # what nobody enforces may be anything
        tool["function"]["strict"] = False
        request = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "tools": [tool]}
        answer = asyncio.create_task(served.http.post("/v1/chat/completions", json=request))
        await (await worker.claimed()).finish()
        assert (await answer).status_code == 200
