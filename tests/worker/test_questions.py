"""What a worker answers beside its jobs."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable

import pytest
from tokenizers.processors import TemplateProcessing

from dllm_stack.messages import (
    ChatPrompt,
    Detokenize,
    Information,
    Prompt,
    Question,
    Reply,
    TextPrompt,
    Tokenize,
)
from dllm_stack.outcomes import ErrorCode
from dllm_stack.queue import START, PoolQueue
from dllm_stack.redis import Connections
from tests.worker.conftest import MODEL, QUEUE
from tests.worker.test_prompt import renderer
from worker.prompt import Renderer
from worker.questions import Questions

__all__ = ["renderer"]

Ask = Callable[[Tokenize | Detokenize], Awaitable[Information]]
CHAT = ChatPrompt([{"role": "user", "content": "Hi"}])


@pytest.fixture
async def ask(connections: Connections, renderer: Renderer) -> Ask:
    queue = PoolQueue(connections, MODEL, QUEUE)
    await queue.gateway_heartbeat("g", START)
    questions = Questions("w", queue, renderer, lambda: 2048)
    last = START

    async def asked(asks: Tokenize | Detokenize) -> Information:
        nonlocal last
        question = Question(uuid.uuid4().hex, "g", asks)
        questions.take(question)
        replies: list[Reply] = []
        while not replies:
            last, replies = await queue.replies("g", last)
        assert [reply.job_id for reply in replies] == [question.id]
        assert replies[0].information is not None
        return replies[0].information

    return asked


async def test_texts_and_chats_become_tokens(ask: Ask, renderer: Renderer) -> None:
    prompts: list[Prompt] = [TextPrompt("Hello 你好 " * 1000), TextPrompt(""), CHAT]
    told = await ask(Tokenize(prompts, special_tokens=True))
    assert told.token_ids == [
        await renderer.render(prompts[0]),
        [],
        await renderer.render(CHAT),
    ]
    assert told.context_length == 2048


async def test_tokens_become_texts(ask: Ask, renderer: Renderer) -> None:
    ids = await renderer.render(CHAT)
    told = await ask(Detokenize([ids, [], ids], special_tokens=True))
    assert told.texts == [renderer.decode(ids, special=True), "", renderer.decode(ids, special=True)]
    told = await ask(Detokenize([ids], special_tokens=False))
    assert told.texts == [renderer.decode(ids, special=False)]


@pytest.mark.parametrize(
    ("asks", "param"),
    [
        (Detokenize([[1], [2, 1103]], special_tokens=False), "tokens"),
        (Tokenize([ChatPrompt([{"role": "robot", "content": "Hi"}])], special_tokens=False), "messages"),
    ],
)
async def test_what_the_model_cannot_take_is_the_callers_to_see(
    ask: Ask, asks: Tokenize | Detokenize, param: str
) -> None:
    problem = (await ask(asks)).problem
    assert problem is not None
    assert (problem.code, problem.param) == (ErrorCode.INVALID_VALUE, param)


async def test_special_tokens_that_a_tokenizer_adds(location: str) -> None:
    renderer = Renderer.load(location, None, 1103)

    renderer._tokenizer.post_processor = TemplateProcessing(
        single="<|startoftext|> $A",
        special_tokens=[("<|startoftext|>", renderer._tokenizer.token_to_id("<|startoftext|>"))],
    )
    plain = await renderer.tokenize(TextPrompt("Hi"))
    with_special = await renderer.tokenize(TextPrompt("Hi"), special=True)
    assert with_special == [renderer._tokenizer.token_to_id("<|startoftext|>"), *plain]
    assert await renderer.tokenize(CHAT, special=True) == await renderer.render(CHAT)
