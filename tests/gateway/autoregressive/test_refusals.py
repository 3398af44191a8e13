"""Requests to an autoregressive model: what is refused, by which name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dllm_stack.capabilities import Capability
from dllm_stack.messages import (
    ModelCard,
)
from dllm_stack.outcomes import ErrorCode, Problem
from dllm_stack.queue import Registry
from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from gateway.fields.grammar import MAX_DEPTH, MAX_GRAMMAR_CHARACTERS
from tests.gateway.autoregressive.kit import (
    ALL,
    CHAT,
    COMPLETION,
    GENERATE,
    INVALID,
    MISSING,
    UNSUPPORTED,
    Ask,
    refused,
)
from tests.gateway.fake_worker import VOCAB_SIZE, FakeWorker
from tests.gateway.served import Served, until

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}


_DEEP: Any = {}
for _ in range(MAX_DEPTH):
    _DEEP = {"items": _DEEP}


def _schema(**fields: Any) -> Ask:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}, **fields}}}


WRONG: list[tuple[Ask, str, str]] = [
    ({"frequency_penalty": 2.1}, "frequency_penalty", INVALID),
    ({"presence_penalty": -2.1}, "presence_penalty", INVALID),
    ({"presence_penalty": "1"}, "presence_penalty", INVALID),
    ({"presence_penalty": True}, "presence_penalty", INVALID),
    ({"repetition_penalty": 0}, "repetition_penalty", INVALID),
    ({"repetition_penalty": 2.5}, "repetition_penalty", INVALID),
    ({"min_p": 1.5}, "min_p", INVALID),
    ({"temperature": 2.5}, "temperature", INVALID),
    ({"logit_bias": {"5": 100.5}}, "logit_bias", INVALID),
    ({"logit_bias": {"5": "1"}}, "logit_bias", INVALID),
    ({"logit_bias": {"5": True}}, "logit_bias", INVALID),
    ({"logit_bias": {"five": 1}}, "logit_bias", INVALID),
    ({"logit_bias": {"-1": 1}}, "logit_bias", INVALID),
    ({"logit_bias": {"²": 1}}, "logit_bias", INVALID),
    ({"logit_bias": {"9" * 5000: 1}}, "logit_bias", INVALID),
    ({"logit_bias": {str(VOCAB_SIZE): 1}}, "logit_bias", INVALID),
    ({"logit_bias": {str(token): 1 for token in range(1025)}}, "logit_bias", INVALID),
    ({"logit_bias": [1]}, "logit_bias", INVALID),
    ({"min_tokens": -1}, "min_tokens", INVALID),
    ({"min_tokens": 6, "max_tokens": 5}, "min_tokens", INVALID),
    ({"min_tokens": 6, "max_tokens": 9, "regex": "a"}, "min_tokens", INVALID),
    ({"regex": 5}, "regex", INVALID),
    ({"regex": "a" * (MAX_GRAMMAR_CHARACTERS + 1)}, "regex", INVALID),
    ({"regex": "a", "ebnf": "b"}, "ebnf", INVALID),
    ({"regex": "a", "response_format": FORMAT}, "response_format", INVALID),
    ({"json_schema": "{"}, "json_schema", INVALID),
    ({"json_schema": "[" * 60_000}, "json_schema", INVALID),
    ({"json_schema": "5"}, "json_schema", INVALID),
    ({"response_format": "json_object"}, "response_format", INVALID),
    ({"response_format": {}}, "response_format.type", MISSING),
    ({"response_format": {"type": "yaml"}}, "response_format.type", INVALID),
    ({"response_format": {"type": "json_object", "x": 1}}, "response_format.x", UNSUPPORTED),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", MISSING),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
        "response_format.json_schema.name",
        MISSING,
    ),
    (_schema(name="a b"), "response_format.json_schema.name", INVALID),
    (_schema(schema=None), "response_format.json_schema.schema", MISSING),
    (_schema(schema=[]), "response_format.json_schema.schema", INVALID),
    (_schema(strict="yes"), "response_format.json_schema.strict", INVALID),
    (_schema(description=5), "response_format.json_schema.description", INVALID),
    (_schema(mood=5), "response_format.json_schema.mood", UNSUPPORTED),
    (_schema(schema=_DEEP), "response_format.json_schema.schema", INVALID),
    (_schema(schema={"enum": ["x" * MAX_GRAMMAR_CHARACTERS]}), "response_format.json_schema.schema", INVALID),
    (
        _schema(schema={"items": {"$ref": "https://example.com/schema"}}),
        "response_format.json_schema.schema",
        UNSUPPORTED,
    ),
    ({"dllm": {"mode": "speed"}}, "dllm", UNSUPPORTED),
    ({"model": "tiny:speed"}, "model", "model_not_found"),
]


async def test_wrong_values_are_refused_by_name(served: Served, worker: FakeWorker) -> None:
    await until(served.gateway.catalogue.all)
    for asked, param, code in WRONG:
        status = 404 if code == "model_not_found" else 400
        assert await refused(served, "/v1/chat/completions", {**CHAT, **asked}) == (status, param, code), (
            asked
        )
        assert await refused(served, "/v1/completions", {**COMPLETION, **asked}) == (status, param, code), (
            asked
        )
    chat: list[tuple[Ask, str]] = [
        ({"logprobs": 1}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"top_logprobs": 1}, "top_logprobs"),
    ]
    for asked, param in chat:
        assert await refused(served, "/v1/chat/completions", {**CHAT, **asked}) == (400, param, INVALID)
    for logprobs in (-1, 6, True):
        asked = {**COMPLETION, "logprobs": logprobs}
        assert await refused(served, "/v1/completions", asked) == (400, "logprobs", INVALID)
    for body, param in (
        ({"top_logprobs_num": 1}, "top_logprobs_num"),
        ({"sampling_params": {"min_new_tokens": 129}}, "sampling_params.min_new_tokens"),
        ({"sampling_params": {"logit_bias": {"5": 101}}}, "sampling_params.logit_bias"),
        ({"sampling_params": {"regex": "a", "json_schema": "{}"}}, "sampling_params.json_schema"),
    ):
        assert await refused(served, "/generate", {**GENERATE, **body}) == (400, param, INVALID)
    assert worker.runs == {}


async def test_what_the_engine_does_not_honour_is_refused(
    connections: Connections, settings: Settings, served: Served
) -> None:
    asked: dict[str, Ask] = {
        "temperature": {"temperature": 1},
        "top_p": {"top_p": 0.5},
        "top_k": {"top_k": 5},
        "seed": {"seed": 5},
        "min_p": {"min_p": 0.5},
        "min_tokens": {"min_tokens": 5},
        "frequency_penalty": {"frequency_penalty": 1},
        "presence_penalty": {"presence_penalty": 1},
        "repetition_penalty": {"repetition_penalty": 2},
        "logit_bias": {"logit_bias": {"5": 1}},
        "logprobs": {"logprobs": True},
        "regex": {"regex": "a"},
        "ebnf": {"ebnf": "a"},
        "response_format": {"response_format": FORMAT},
    }
    assert asked.keys() == set(Capability) - {Capability.STRICT}  # see tools/test_strict.py
    async with FakeWorker(connections, settings.queue, autoregressive=[], blocks=["x"]).working():
        await until(served.gateway.catalogue.all)
        for name, ask in asked.items():
            assert await refused(served, "/v1/chat/completions", {**CHAT, **ask}) == (400, name, UNSUPPORTED)
        assert (await served.http.post("/v1/chat/completions", json=CHAT)).status_code == 200


async def test_what_nobody_knows_yet_is_to_be_asked_later(connections: Connections, served: Served) -> None:
    loading = ModelCard(name="loading", context_length=99, block_size=1, algorithm=None, created=0)
    await Registry(connections).publish("loading", loading)
    await Registry(connections).publish("unknown", None)
    for model in ("loading", "unknown"):
        for asked in ({"presence_penalty": 1}, {"regex": "a"}, {"logprobs": 1}, {"seed": 1}, {"top_p": 0.5}):
            status, _, code = await refused(
                served, "/v1/completions", {**COMPLETION, **asked, "model": model}
            )
            assert (status, code) == (503, "no_worker")


async def test_a_card_that_says_less_takes_nothing_back(
    connections: Connections, served: Served, worker: FakeWorker
) -> None:
    """Its worker has started its engine again, or another one's is loading."""
    catalogue = served.gateway.catalogue
    await until(catalogue.all)
    loading = ModelCard(name="tiny", context_length=99, block_size=1, algorithm=None, created=0)
    await Registry(connections).publish("tiny", loading)
    await catalogue.refresh()
    card = (await catalogue.find("tiny")).card
    assert card is not None
    assert card.capabilities == ALL


@pytest.mark.parametrize(
    ("param", "chat", "generate"),
    [
        ("regex", "regex", "sampling_params.regex"),
        ("json_schema", "response_format", "sampling_params.json_schema"),
        ("logit_bias", "logit_bias", "sampling_params.logit_bias"),
        ("dllm.greed", "dllm.greed", "sampling_params.custom_params.dllm.greed"),
        ("messages", "messages", "text"),
    ],
)
async def test_what_an_engine_refuses_has_the_name_it_came_by(
    served: Served, worker: FakeWorker, param: str, chat: str, generate: str
) -> None:
    for path, body, name in (("/v1/chat/completions", CHAT, chat), ("/generate", GENERATE, generate)):
        request = asyncio.create_task(served.http.post(path, json=body))
        run = await worker.claimed()
        await run.fail(Problem(ErrorCode.INVALID_VALUE, "The engine does not like it.", param=param))
        assert (await request).json()["error"]["param"] == name
