"""Requests to an autoregressive model: what of them reaches its worker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dllm_stack.decoding import Decision, Grammar, GrammarKind, Sampling, TokenByToken
from dllm_stack.messages import (
    AUTOREGRESSIVE,
    DecodingCard,
)
from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from tests.gateway.autoregressive.kit import ALL, CHAT, COMPLETION, GENERATE, UNSUPPORTED, Ask, refused, told
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, until

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}


SHAPED: list[tuple[Ask, TokenByToken]] = [
    ({}, TokenByToken()),
    ({"min_p": 0.5}, TokenByToken(min_p=0.5)),
    (
        {"frequency_penalty": -2, "presence_penalty": 2},
        TokenByToken(frequency_penalty=-2, presence_penalty=2),
    ),
    ({"repetition_penalty": 1.5}, TokenByToken(repetition_penalty=1.5)),
    ({"logit_bias": {"5": -100, "999": 1.5}}, TokenByToken(logit_bias={5: -100, 999: 1.5})),
    ({"regex": "a+"}, TokenByToken(grammar=Grammar(kind=GrammarKind.REGEX, text="a+"))),
    ({"ebnf": 'root ::= "a"'}, TokenByToken(grammar=Grammar(kind=GrammarKind.EBNF, text='root ::= "a"'))),
    (
        {"json_schema": json.dumps(SCHEMA)},
        TokenByToken(grammar=Grammar(kind=GrammarKind.JSON_SCHEMA, text=json.dumps(SCHEMA))),
    ),
    (
        {"min_p": None, "frequency_penalty": 0, "repetition_penalty": 1, "logit_bias": {}, "regex": ""},
        TokenByToken(),
    ),
]


@pytest.mark.parametrize(("asked", "shaped"), SHAPED, ids=str)
async def test_what_is_asked_reaches_the_worker(
    served: Served, worker: FakeWorker, asked: Ask, shaped: TokenByToken
) -> None:
    for path, body in (
        ("/v1/chat/completions", {**CHAT, **asked}),
        ("/v1/completions", {**COMPLETION, **asked}),
        ("/generate", {**GENERATE, "sampling_params": asked}),
    ):
        decoding = await told(served, worker, path, body)
        assert decoding.token_by_token == shaped
        assert decoding.sampling is not None
        assert decoding.sampling.temperature == AUTOREGRESSIVE.temperature == 1


async def test_each_endpoint_has_names_of_its_own(served: Served, worker: FakeWorker) -> None:
    asked = {"min_tokens": 3, "max_tokens": 9, "logprobs": True, "top_logprobs": 20}
    chat = await told(served, worker, "/v1/chat/completions", {**CHAT, **asked})
    assert chat.token_by_token == TokenByToken(min_tokens=3, top_logprobs=20)
    chat = await told(served, worker, "/v1/chat/completions", {**CHAT, "logprobs": True})
    assert chat.token_by_token == TokenByToken(top_logprobs=0)
    chat = await told(
        served, worker, "/v1/chat/completions", {**CHAT, "logprobs": False, "top_logprobs": None}
    )
    assert chat.token_by_token == TokenByToken()
    completion = await told(served, worker, "/v1/completions", {**COMPLETION, "min_tokens": 3, "logprobs": 0})
    assert completion.token_by_token == TokenByToken(min_tokens=3, top_logprobs=0)
    generate = {**GENERATE, "return_logprob": True, "top_logprobs_num": 2, "logprob_start_len": -1}
    generated = await told(
        served, worker, "/generate", {**generate, "sampling_params": {"min_new_tokens": 128}}
    )
    assert generated.token_by_token == TokenByToken(min_tokens=128, top_logprobs=2)


@pytest.mark.parametrize(
    ("format", "schema"),
    [
        ({"type": "text"}, None),
        (None, None),
        ({"type": "json_object"}, {"type": "object"}),
        (FORMAT, SCHEMA),
        ({"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}, {}),
    ],
    ids=str,
)
async def test_response_formats(served: Served, worker: FakeWorker, format: Any, schema: Any) -> None:
    decoding = await told(served, worker, "/v1/chat/completions", {**CHAT, "response_format": format})
    grammar = decoding.token_by_token.grammar
    if schema is None:
        assert grammar is None
    else:
        assert grammar is not None
        assert (grammar.kind, json.loads(grammar.text)) == (GrammarKind.JSON_SCHEMA, schema)


async def test_sampling(served: Served, worker: FakeWorker) -> None:
    asked = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "seed": -7}
    decoding = await told(served, worker, "/v1/completions", {**COMPLETION, **asked})
    assert decoding.sampling == Sampling(temperature=0.5, top_p=0.9, top_k=5, seed=-7)
    # Unlike a diffusion model it draws without being asked to, so these mean something alone.
    decoding = await told(served, worker, "/v1/completions", {**COMPLETION, "top_p": 0.9, "seed": 3})
    assert decoding.sampling == Sampling(temperature=1, top_p=0.9, seed=3)
    greedy = await told(served, worker, "/v1/completions", {**COMPLETION, "temperature": 0})
    assert greedy.sampling == Sampling()
    seeds = {
        decoding.sampling.seed
        for _ in range(2)
        if (decoding := await told(served, worker, "/v1/completions", COMPLETION)).sampling is not None
    }
    assert len(seeds) == 2


async def test_two_models_of_different_kinds(
    connections: Connections, settings: Settings, served: Served
) -> None:
    card = DecodingCard(
        default=Decision(algorithm="LowConfidence"),
        modes={},
        algorithms={"LowConfidence": []},
        sampling=["LowConfidence"],
    )
    diffusion = FakeWorker(connections, settings.queue, "dllm", name="one", blocks=["x"], decoding=card)
    other = FakeWorker(connections, settings.queue, "ar", name="two", blocks=["x"], autoregressive=ALL)
    async with diffusion.working(), other.working():
        await until(lambda: {"dllm", "ar"} <= served.gateway.catalogue._models.keys())
        models = {model["id"]: model for model in (await served.http.get("/v1/models")).json()["data"]}
        assert (models["dllm"]["kind"], models["ar"]["kind"]) == ("diffusion", "autoregressive")
        assert models["dllm"]["capabilities"] == ["seed", "temperature", "top_k", "top_p"]
        assert models["ar"]["capabilities"] == sorted(ALL)
        for asked in ({"presence_penalty": 1}, {"regex": "a"}, {"logprobs": 1}, {"seed": 1}):
            body = {**COMPLETION, **asked}
            assert (
                await served.http.post("/v1/completions", json={**body, "model": "ar"})
            ).status_code == 200
            status, param, code = await refused(served, "/v1/completions", {**body, "model": "dllm"})
            assert (status, [param], code) == (400, list(asked), UNSUPPORTED)
