"""A diffusion model and an autoregressive one on one stack, each on an engine of its own."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from dllm_stack.decoding import Sampling, TokenByToken
from dllm_stack.messages import Committed, Decoding, End, Job, TokenPrompt
from dllm_stack.outcomes import ErrorCode, Outcome
from dllm_stack.queue import START, PoolQueue
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings
from loadtest.local_stack import LocalStack

TOKENS = 24
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


async def ask(client: AsyncOpenAI, model: str, **how: Any) -> Any:
    how = {"max_tokens": TOKENS, "messages": [{"role": "user", "content": "Hi"}], **how}
    return await client.chat.completions.create(model=model, **how)


async def text(client: AsyncOpenAI, model: str, **how: Any) -> str:
    answer: str = (await ask(client, model, **how)).choices[0].message.content
    return answer


async def test_each_says_what_it_honours(client: AsyncOpenAI, model: str, autoregressive: str) -> None:
    listed = {each.id: each.model_dump() for each in (await client.models.list()).data}
    assert listed.keys() == {model, autoregressive}
    assert listed[model]["kind"] == "diffusion"
    assert listed[model]["capabilities"] == ["seed", "temperature", "top_k", "top_p"]
    assert listed[autoregressive]["kind"] == "autoregressive"
    # All but a seed, by which SGLang draws only with attention kernels that a CPU does not have.
    assert listed[autoregressive]["capabilities"] == [
        "ebnf",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "min_p",
        "min_tokens",
        "presence_penalty",
        "regex",
        "repetition_penalty",
        "response_format",
        "strict",
        "temperature",
        "top_k",
        "top_p",
    ]
    assert [each["tools"] for each in listed.values()] == ["tool_call_tags"] * 2


@pytest.mark.parametrize(
    ("how", "param"),
    [
        ({"presence_penalty": 1}, "presence_penalty"),
        ({"logit_bias": {"300": 1}}, "logit_bias"),
        ({"logprobs": True}, "logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"extra_body": {"regex": "a"}}, "regex"),
        ({"extra_body": {"min_tokens": 3}}, "min_tokens"),
    ],
    ids=str,
)
async def test_what_the_one_refuses_the_other_takes(
    client: AsyncOpenAI, model: str, autoregressive: str, how: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await ask(client, model, **how)
    assert (caught.value.param, caught.value.code) == (param, "unsupported_parameter")
    assert (await ask(client, autoregressive, **how)).usage.completion_tokens > 0
    with pytest.raises(openai.BadRequestError) as caught:
        await ask(client, autoregressive, extra_body={"dllm": {"mode": "speed"}})
    assert caught.value.param == "dllm"


async def test_it_draws_unless_told_not_to(client: AsyncOpenAI, autoregressive: str) -> None:
    drawn = {await text(client, autoregressive) for _ in range(4)}
    assert len(drawn) > 1
    greedy = {await text(client, autoregressive, temperature=0) for _ in range(2)}
    assert len(greedy) == 1
    for how in ({"top_p": 1e-6}, {"extra_body": {"top_k": 1}}, {"extra_body": {"min_p": 1}}):
        assert {await text(client, autoregressive, temperature=2, **how)} == greedy


async def test_biases_and_penalties(stack: LocalStack, client: AsyncOpenAI, autoregressive: str) -> None:
    only = {"logit_bias": {"300": 100, "301": 100}, "temperature": 0, "extra_body": {"ignore_eos": True}}

    async def ids(**how: Any) -> list[str]:
        answer = await ask(client, autoregressive, logprobs=True, **{**only, **how})
        return [each.token for each in answer.choices[0].logprobs.content]

    unpenalised = await ids()
    assert len(unpenalised) == TOKENS
    assert len(set(unpenalised)) <= 2
    penalised = await ids(frequency_penalty=2)
    assert (
        abs(penalised.count(penalised[0]) - TOKENS / 2)
        <= 2
        < abs(unpenalised.count(unpenalised[0]) - TOKENS / 2)
    )

    async def greedy(**how: Any) -> str:
        asked = {"model": autoregressive, "prompt": "the sun", "max_tokens": TOKENS, "temperature": 0, **how}
        answer: str = (await client.completions.create(**asked)).choices[0].text
        return answer

    plain = await greedy()
    assert plain.startswith(" being being being being")
    assert await greedy(presence_penalty=2) != plain
    assert await greedy(extra_body={"repetition_penalty": 2}) != plain


async def test_log_probabilities(client: AsyncOpenAI, autoregressive: str) -> None:
    how: dict[str, Any] = {"temperature": 0, "logprobs": True, "top_logprobs": 3}
    whole = (await ask(client, autoregressive, **how)).choices[0]
    content = whole.logprobs.content
    assert b"".join(bytes(each.bytes) for each in content).decode() == whole.message.content
    for each in content:
        assert each.logprob <= 0
        assert len(each.top_logprobs) == 3
        assert each.top_logprobs[0].token == each.token
        assert each.top_logprobs[0].logprob == each.logprob
    chunks = [chunk async for chunk in await ask(client, autoregressive, stream=True, **how)]
    streamed = [
        each
        for chunk in chunks
        for choice in chunk.choices
        if choice.logprobs
        for each in choice.logprobs.content
    ]
    assert [each.token for each in streamed] == [each.token for each in content]
    assert [each.logprob for each in streamed] == pytest.approx([each.logprob for each in content], abs=1e-3)
    completion = await client.completions.create(
        model=autoregressive, prompt="The sun", max_tokens=TOKENS, temperature=0, logprobs=2
    )
    choice = completion.choices[0]
    told = choice.logprobs
    assert told is not None
    assert told.tokens
    assert told.token_logprobs
    assert told.top_logprobs
    assert told.text_offset
    assert "".join(told.tokens) == choice.text
    assert [
        choice.text[at:][: len(token)] for at, token in zip(told.text_offset, told.tokens, strict=True)
    ] == told.tokens
    assert all(
        top[token] == max(top.values()) for top, token in zip(told.top_logprobs, told.tokens, strict=True)
    )


async def test_the_engine_takes_the_form_of_strict_tools(client: AsyncOpenAI, autoregressive: str) -> None:
    """That calls keep to it is shown without one: weights that are noise call nothing."""

    def tools(schema: Any) -> list[Any]:
        return [{"type": "function", "function": {"name": "greet", "strict": True, "parameters": schema}}]

    assert (await ask(client, autoregressive, tools=tools(SCHEMA))).choices[0].message.content
    with pytest.raises(openai.BadRequestError) as caught:
        await ask(client, autoregressive, tools=tools({"type": "nonsense"}))
    assert caught.value.param == "tools"


async def test_the_form_of_an_answer(client: AsyncOpenAI, autoregressive: str) -> None:
    named = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}
    for _ in range(3):
        person = json.loads(await text(client, autoregressive, response_format=named, max_tokens=100))
        assert person.keys() == {"name", "age"}
        assert isinstance(person["age"], int)
    assert re.fullmatch("[0-9]{3}", await text(client, autoregressive, extra_body={"regex": "[0-9]{3}"}))
    grammar = 'root ::= "yes" | "no"'
    assert await text(client, autoregressive, extra_body={"ebnf": grammar}) in ("yes", "no")
    whole = await text(
        client, autoregressive, response_format={"type": "json_object"}, max_tokens=1000, logit_bias={"92": 5}
    )
    assert isinstance(json.loads(whole), dict)
    for wrong in ({"regex": "[0-9"}, {"ebnf": "root ::= x"}, {"ebnf": 'root ::= root "a"'}):
        with pytest.raises(openai.BadRequestError) as caught:
            await ask(client, autoregressive, extra_body=wrong)
        assert [caught.value.param] == list(wrong)
        # The engine finds out about the last one after its first token.
        with pytest.raises(openai.APIError) as error:
            async for _ in await ask(client, autoregressive, extra_body=wrong, stream=True):
                pass
        assert [error.value.param] == list(wrong)
    # None of them has done the engine any harm, or cost it its health.
    assert await text(client, autoregressive)


async def test_lengths_stops_and_usage(client: AsyncOpenAI, autoregressive: str) -> None:
    end = {"logit_bias": {"1098": 50}}
    answer = await ask(client, autoregressive, **end)
    assert (answer.choices[0].finish_reason, answer.usage.completion_tokens) == ("stop", 1)
    answer = await ask(client, autoregressive, extra_body={"min_tokens": 7}, **end)
    assert (answer.choices[0].finish_reason, answer.usage.completion_tokens) == ("stop", 8)
    whole = await text(client, autoregressive, temperature=0)
    stop = whole[10:14]
    stopped = await ask(client, autoregressive, temperature=0, stop=stop)
    assert stopped.choices[0].message.content == whole[: whole.index(stop)]
    assert stopped.choices[0].finish_reason == "stop"
    stream = await ask(
        client, autoregressive, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    pieces = [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.delta.content]
    assert "".join(pieces) == whole
    assert chunks[-1].usage.completion_tokens == TOKENS


async def test_a_long_stream_is_sent_as_it_comes(
    client: AsyncOpenAI, autoregressive: str, record: Callable[[str], None]
) -> None:
    """Beside others, each of them whole."""
    how: dict[str, Any] = {"temperature": 0, "max_tokens": 400, "extra_body": {"ignore_eos": True}}
    whole = await text(client, autoregressive, **how)

    async def streamed() -> list[str]:
        stream = await ask(client, autoregressive, stream=True, **how)
        return [chunk.choices[0].delta.content or "" async for chunk in stream]

    streams = await asyncio.gather(*(streamed() for _ in range(6)))
    assert {"".join(pieces) for pieces in streams} == {whole}
    record(f"6 autoregressive streams of 400 tokens: {sum(map(len, streams)) / 6:.0f} events each")


class Attempt:
    """Stands where a gateway stands, whose job has been begun by a worker that is gone."""

    def __init__(self, redis: Connections, pool: str) -> None:
        self._queue = PoolQueue(redis, pool, QueueSettings())
        self._pool = pool
        self._gateway = uuid.uuid4().hex

    async def answer(self, decoding: Decoding, committed: Committed) -> tuple[list[int], str, End]:
        """What this attempt adds."""
        prompt = TokenPrompt(list(range(300, 340)))
        job = Job(
            id=uuid.uuid4().hex, pool=self._pool, gateway=self._gateway, prompt=prompt, decoding=decoding
        )
        await self._queue.gateway_heartbeat(self._gateway, START)
        assert await self._queue.admit(job, attempts=1, committed=committed) is None
        ids: list[int] = []
        text, after = "", START
        while True:
            await self._queue.gateway_heartbeat(self._gateway, START)
            after, replies = await self._queue.replies(self._gateway, after)
            for reply in (each for each in replies if each.job_id == job.id):
                if reply.block is not None:
                    assert reply.after.tokens == len(committed.token_ids) + len(ids)
                    ids += reply.block.token_ids
                    text += reply.block.text
                if reply.end is not None:
                    return ids, text, reply.end


@pytest.fixture
async def attempt(redis: Connections, autoregressive: str) -> AsyncIterator[Attempt]:
    attempt = Attempt(redis, autoregressive)
    yield attempt
    await attempt._queue.gateway_leave(attempt._gateway)


GREEDY = Decoding(max_tokens=TOKENS, ignore_eos=True, sampling=Sampling())
PENALISED = Decoding(
    max_tokens=TOKENS,
    ignore_eos=True,
    sampling=Sampling(),
    token_by_token=TokenByToken(frequency_penalty=1.5, logit_bias={300: 20, 301: 20, 302: 20}),
)


@pytest.mark.parametrize("decoding", [GREEDY, PENALISED], ids=["greedy", "penalised"])
async def test_an_answer_that_was_begun_goes_on(attempt: Attempt, decoding: Decoding) -> None:
    ids, whole, end = await attempt.answer(decoding, Committed())
    assert end.completion_tokens == len(ids) == TOKENS
    for kept in (1, 9, TOKENS - 1):
        # None of the text was sent: it may lag behind the tokens.
        rest, text, end = await attempt.answer(decoding, Committed(token_ids=ids[:kept], characters=0))
        assert (rest, text, end.completion_tokens) == (ids[kept:], whole, TOKENS)


async def test_a_drawn_answer_goes_on_or_says_that_it_cannot(attempt: Attempt) -> None:
    drawn = Decoding(max_tokens=TOKENS, ignore_eos=True, sampling=Sampling(temperature=1))
    begun = Committed(token_ids=[300, 301, 302], characters=0)
    rest, _, end = await attempt.answer(drawn, begun)
    assert (len(rest), end.completion_tokens) == (TOKENS - 3, TOKENS)
    penalised = Decoding(
        max_tokens=TOKENS,
        sampling=Sampling(temperature=1),
        token_by_token=TokenByToken(presence_penalty=1),
    )
    _, _, end = await attempt.answer(penalised, begun)
    assert end.outcome is Outcome.FAILED
    assert end.problem is not None
    assert end.problem.code is ErrorCode.WORKER_LOST


async def test_both_at_once(client: AsyncOpenAI, model: str, autoregressive: str) -> None:
    one, other = await asyncio.gather(ask(client, model), ask(client, autoregressive))
    assert (one.model, other.model) == (model, autoregressive)
