"""What a worker answers beside its jobs."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import cast

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
from worker import questions as module
from worker.prompt import Renderer
from worker.questions import MOST_CHARACTERS, Questions

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
        (Tokenize([TextPrompt("x" * MOST_CHARACTERS), TextPrompt("x")], special_tokens=False), "prompt"),
        (Tokenize([ChatPrompt([{"role": "robot", "content": "Hi"}])], special_tokens=False), "messages"),
    ],
)
async def test_what_the_model_cannot_take_is_the_callers_to_see(
    ask: Ask, asks: Tokenize | Detokenize, param: str
) -> None:
    problem = (await ask(asks)).problem
    assert problem is not None
    assert (problem.code, problem.param) == (ErrorCode.INVALID_VALUE, param)


async def test_questions_that_nobody_waits_for_any_more_are_dropped(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that ask much, and leave, keep nobody waiting."""
    monkeypatch.setattr(module, "STALE_S", 2.0)
    asked: list[str] = []
    first_may_end = asyncio.Event()

    class SlowRenderer:
        """A fake: only here can a text take as long as it is to."""

        async def tokenize(self, prompt: Prompt, *, special: bool) -> list[int]:
            assert isinstance(prompt, TextPrompt)
            asked.append(prompt.text)
            if prompt.text == "first":
                await first_may_end.wait()
            return [1]

    queue = PoolQueue(connections, MODEL, QUEUE)
    await queue.gateway_heartbeat("g", START)
    questions = Questions("w", queue, cast(Renderer, SlowRenderer()), lambda: 2048)

    def ask(text: str) -> None:
        questions.take(Question(text, "g", Tokenize([TextPrompt(text)], special_tokens=False)))

    for text in ("first", "second", "third"):
        ask(text)
    asyncio.get_running_loop().call_later(2.5, first_may_end.set)
    await first_may_end.wait()
    ask("last")
    last, told = START, set[str]()
    while "last" not in told:
        last, replies = await queue.replies("g", last)
        told |= {reply.job_id for reply in replies}
    assert told == {"first", "last"}
    assert asked == ["first", "last"]


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
