"""What an answer takes of the gateway's memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import msgspec
import pytest

from dllm_stack.capabilities import Capability
from dllm_stack.messages import Block, Likely, TokenLogprob
from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from gateway.answer import Answer
from gateway.http.pieces import document_of
from tests.gateway.fake_worker import PROMPT_TOKENS, FakeWorker
from tests.gateway.served import Served

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "logprobs": True}


@pytest.mark.parametrize(
    ("path", "body", "kept"),
    [
        ("/v1/chat/completions", CHAT | {"stream": True}, 0),
        ("/v1/completions", {"model": "tiny", "prompt": "Hi", "logprobs": 1, "stream": True}, 0),
        ("/v1/chat/completions", CHAT, 3),
        ("/generate", {"text": "Hi", "return_logprob": True, "stream": True}, 3),  # each event repeats all
    ],
)
async def test_of_a_stream_no_log_probabilities_are_kept_that_were_sent(
    served: Served,
    connections: Connections,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: dict[str, object],
    kept: int,
) -> None:
    answers: list[Answer] = []
    close = Answer.close

    def note(answer: Answer, error: str | None) -> None:
        answers.append(answer)
        close(answer, error)

    monkeypatch.setattr(Answer, "close", note)
    worker = FakeWorker(connections, settings.queue, autoregressive=[Capability.LOGPROBS])
    async with worker.working():
        request = asyncio.create_task(served.http.post(path, json=body))
        run = await worker.claimed()
        logprobs = [TokenLogprob(Likely(id, b"a", -0.5), []) for id in range(3)]
        await run.finish(
            block=Block(text="aaa", token_ids=[0, 1, 2], prompt_tokens=PROMPT_TOKENS, logprobs=logprobs)
        )
        assert (await request).text.count("-0.5") >= 3
    assert [len(answer.logprobs) for answer in answers] == [kept]
    assert [cost.tokens for cost in answers[0].costs] == [3]


async def test_choices_that_are_one_answer_are_written_one_by_one(served: Served, worker: FakeWorker) -> None:
    request = asyncio.create_task(
        served.http.post("/v1/completions", json={"model": "tiny", "prompt": "Hi", "n": 128})
    )
    run = await worker.claimed()
    await run.commit(text := "x" * 10_000)
    await run.finish()
    response = await request
    assert "content-length" not in response.headers
    choices = response.json()["choices"]
    assert [choice["index"] for choice in choices] == list(range(128))
    assert {choice["text"] for choice in choices} == {text}
    assert response.json()["usage"]["completion_tokens"] == 128


class _Document(msgspec.Struct):
    id: str
    choices: list[int]
    usage: int = 3


class _Choice(msgspec.Struct):
    index: int


@pytest.mark.parametrize("id", ["", '"choices":[]', '\\"choices":[]'])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_pieces_make_a_document(id: str, count: int) -> None:
    made: list[int] = []

    def choices() -> Iterator[_Choice]:
        for index in range(count):
            made.append(index)
            yield _Choice(index)

    pieces = document_of(_Document(id, []), choices())
    next(pieces)
    assert made == list(range(min(count, 2)))
    assert len(list(pieces)) == max(0, count - 1)
    whole = b"".join(document_of(_Document(id, []), choices()))
    assert json.loads(whole) == {"id": id, "choices": [{"index": i} for i in range(count)], "usage": 3}
