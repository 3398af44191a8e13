"""Requests to an autoregressive model: what reaches its worker, what is refused by name, what is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from dllm_stack.capabilities import Capability
from dllm_stack.decoding import Decision, Grammar, GrammarKind, Sampling, TokenByToken
from dllm_stack.messages import (
    AUTOREGRESSIVE,
    Block,
    Decoding,
    DecodingCard,
    Likely,
    ModelCard,
    Place,
    TokenLogprob,
)
from dllm_stack.outcomes import ErrorCode, Problem
from dllm_stack.queue import Registry
from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from gateway.fields.grammar import MAX_DEPTH, MAX_GRAMMAR_CHARACTERS
from tests.gateway.fake_worker import PROMPT_TOKENS, VOCAB_SIZE, FakeWorker, Run
from tests.gateway.served import Served, until

Ask = dict[str, Any]
CHAT: Ask = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
COMPLETION: Ask = {"model": "tiny", "prompt": "Hi"}
GENERATE: Ask = {"model": "tiny", "text": "Hi"}
ALL = [str(each) for each in Capability]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}


@pytest.fixture
async def worker(connections: Connections, settings: Settings) -> AsyncIterator[FakeWorker]:
    """Its model honours everything."""
    async with FakeWorker(connections, settings.queue, autoregressive=ALL).working() as worker:
        yield worker


async def told(served: Served, worker: FakeWorker, path: str, body: Ask) -> Decoding:
    """What the worker is told of a request's decoding."""
    request = asyncio.create_task(served.http.post(path, json=body))
    run = await worker.claimed()
    await run.finish()
    response = await request
    assert response.status_code == 200, response.text
    return run.job.decoding


async def refused(served: Served, path: str, body: Ask) -> tuple[int, str | None, str]:
    """Status, param and code."""
    response = await served.http.post(path, json=body)
    error = response.json()["error"]
    return response.status_code, error["param"], error["code"]


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


INVALID, UNSUPPORTED, MISSING = "invalid_value", "unsupported_parameter", "missing_required_parameter"
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


# An answer of four tokens: a word, the two halves of a character, and the end.
def _token(token_id: int, utf8: bytes, logprob: float, shown: bool = True) -> TokenLogprob:
    drawn = Likely(token_id, utf8, logprob)
    return TokenLogprob(drawn, [drawn, Likely(99, b" other", logprob - 1)], shown)


LOGPROBS = [
    _token(1, b" word", -0.5),
    _token(2, "é".encode()[:1], -0.25),
    _token(3, "é".encode()[1:], -0.125),
    _token(4, b"<end>", -2, shown=False),
]


async def _answer(run: Run) -> None:
    blocks = [(" word", [1], LOGPROBS[:1]), ("", [2], LOGPROBS[1:2])]
    for text, token_ids, logprobs in blocks:
        block = Block(text=text, token_ids=token_ids, prompt_tokens=PROMPT_TOKENS, logprobs=logprobs)
        await run._send(run.place, block)
        run.place = Place(run.place.tokens + 1, run.place.characters + len(text))
    last = Block(text="é", token_ids=[3, 4], prompt_tokens=PROMPT_TOKENS, logprobs=LOGPROBS[2:])
    await run.finish(matched=4, block=last)


async def _answered(served: Served, worker: FakeWorker, path: str, body: Ask) -> httpx.Response:
    request = asyncio.create_task(served.http.post(path, json=body))
    await _answer(await worker.claimed())
    response = await request
    assert response.status_code == 200, response.text
    return response


def _events(response: httpx.Response) -> list[Any]:
    lines = [line for line in response.text.splitlines() if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


async def test_log_probabilities_of_a_chat(served: Served, worker: FakeWorker) -> None:
    asked = {**CHAT, "logprobs": True, "top_logprobs": 2}
    (choice,) = (await _answered(served, worker, "/v1/chat/completions", asked)).json()["choices"]
    content = choice["logprobs"]["content"]
    assert choice["logprobs"]["refusal"] is None
    assert [each["token"] for each in content] == [" word", "bytes:\\xc3", "bytes:\\xa9"]
    assert b"".join(bytes(each["bytes"]) for each in content).decode() == choice["message"]["content"]
    assert content[0] == {
        "token": " word",
        "bytes": list(b" word"),
        "logprob": -0.5,
        "top_logprobs": [
            {"token": " word", "bytes": list(b" word"), "logprob": -0.5},
            {"token": " other", "bytes": list(b" other"), "logprob": -1.5},
        ],
    }
    events = _events(await _answered(served, worker, "/v1/chat/completions", {**asked, "stream": True}))
    streamed = [
        each
        for event in events
        for choice in event["choices"]
        for each in (choice["logprobs"] or {"content": []})["content"]
    ]
    assert streamed == content


async def test_log_probabilities_of_a_completion(served: Served, worker: FakeWorker) -> None:
    asked = {**COMPLETION, "logprobs": 2}
    (choice,) = (await _answered(served, worker, "/v1/completions", asked)).json()["choices"]
    assert choice["logprobs"] == {
        "tokens": [" word", "bytes:\\xc3", "bytes:\\xa9"],
        "token_logprobs": [-0.5, -0.25, -0.125],
        "top_logprobs": [
            {" word": -0.5, " other": -1.5},
            {"bytes:\\xc3": -0.25, " other": -1.25},
            {"bytes:\\xa9": -0.125, " other": -1.125},
        ],
        "text_offset": [0, 5, 6],
    }
    events = _events(await _answered(served, worker, "/v1/completions", {**asked, "stream": True}))
    told = [choice["logprobs"] for event in events for choice in event["choices"] if choice["logprobs"]]
    for name, whole in choice["logprobs"].items():
        assert [each for one in told for each in one[name]] == whole


async def test_log_probabilities_of_generate(served: Served, worker: FakeWorker) -> None:
    asked = {**GENERATE, "return_logprob": True, "top_logprobs_num": 2}
    answer = (await _answered(served, worker, "/generate", asked)).json()
    meta = answer["meta_info"]
    assert meta["output_token_logprobs"] == [
        [-0.5, 1, None],
        [-0.25, 2, None],
        [-0.125, 3, None],
        [-2, 4, None],
    ]
    assert [each[1] for each in meta["output_token_logprobs"]] == answer["output_ids"]
    assert meta["output_top_logprobs"][0] == [[-0.5, 1, None], [-1.5, 99, None]]
    texts = {**asked, "return_text_in_logprobs": True}
    meta = (await _answered(served, worker, "/generate", texts)).json()["meta_info"]
    assert meta["output_token_logprobs"][0] == [-0.5, 1, " word"]
    plain = (await _answered(served, worker, "/generate", GENERATE)).json()["meta_info"]
    assert "output_token_logprobs" not in plain


async def test_log_probabilities_are_told_once(served: Served, worker: FakeWorker) -> None:
    """A worker that takes over may send again what has come, and more."""
    asked = {**CHAT, "logprobs": True}
    request = asyncio.create_task(served.http.post("/v1/chat/completions", json=asked))
    run = await worker.claimed()
    block = Block(text=" word", token_ids=[1], prompt_tokens=PROMPT_TOKENS, logprobs=LOGPROBS[:1])
    await run._send(run.place, block)
    longer = Block(text=" wordé", token_ids=[1, 2, 3, 4], prompt_tokens=PROMPT_TOKENS, logprobs=LOGPROBS)
    await run.give_back()
    again = await worker.claimed()
    again.place = Place(0, 0)
    await again.finish(matched=4, block=longer)
    (choice,) = (await request).json()["choices"]
    assert [each["token"] for each in choice["logprobs"]["content"]] == [
        " word",
        "bytes:\\xc3",
        "bytes:\\xa9",
    ]
