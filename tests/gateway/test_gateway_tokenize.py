"""/tokenize and /detokenize: a worker is asked, beside its jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dllm_stack.messages import ChatPrompt, Detokenize, TextPrompt, Tokenize
from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from gateway import feed
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import RestartableRedis, Served, alone, until

Pair = tuple[Served, FakeWorker]
TOOL = {"type": "function", "function": {"name": "f"}}
CHAT = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("body", "answer", "asks"),
    [
        ({"prompt": "ab"}, {"tokens": [97, 98], "count": 2}, Tokenize([TextPrompt("ab")], True)),
        ({"prompt": ""}, {"tokens": [], "count": 0}, Tokenize([TextPrompt("")], True)),
        (
            {"prompt": ["a", "bc"], "add_special_tokens": False},
            {"tokens": [[97], [98, 99]], "count": [1, 2]},
            Tokenize([TextPrompt("a"), TextPrompt("bc")], False),
        ),
        ({"prompt": ["a"]}, {"tokens": [[97]], "count": [1]}, Tokenize([TextPrompt("a")], True)),
        (
            {"messages": CHAT, "tools": [TOOL], "tool_choice": "auto"},
            {"tokens": [104, 105], "count": 2},
            Tokenize([ChatPrompt(CHAT, [TOOL])], True),
        ),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_tokenize(pair: Pair, body: dict[str, Any], answer: dict[str, Any], asks: Tokenize) -> None:
    served, worker = pair
    await worker.set_slots(0)  # none is needed
    response = await served.http.post("/tokenize", json={"model": "tiny", **body})
    assert response.json() == {**answer, "max_model_len": 4096}
    assert worker.questions.pop().asks == asks


@pytest.mark.parametrize(
    ("body", "text", "asks"),
    [
        ({"tokens": [97, 20320]}, "a你", Detokenize([[97, 20320]], False)),
        ({"tokens": []}, "", Detokenize([[]], False)),
        ({"tokens": [[97], []], "skip_special_tokens": False}, ["a", ""], Detokenize([[97], []], True)),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_detokenize(pair: Pair, body: dict[str, Any], text: str | list[str], asks: Detokenize) -> None:
    served, worker = pair
    response = await served.http.post("/detokenize", json=body)  # there is one model only
    assert response.json() == {"text": text}
    assert response.headers["x-request-id"]
    assert worker.questions.pop().asks == asks
    assert (await served.outcomes())["detokenize", "tiny", "completed", ""] > 0


async def test_without_a_worker(served: Served, worker: FakeWorker, connections: Connections) -> None:
    await worker.announce("empty")
    response = await served.http.post("/tokenize", json={"model": "empty", "prompt": "a"})
    assert (response.status_code, response.json()["error"]["code"]) == (503, "no_worker")
    assert response.headers["retry-after"]


async def test_a_silent_worker_is_not_waited_for(
    served: Served, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "QUESTION_S", 0.1)
    worker.is_mute = True
    response = await served.http.post("/tokenize", json={"model": "tiny", "prompt": "a"})
    assert (response.status_code, response.json()["error"]["code"]) == (503, "no_worker")
    await until(lambda: len(worker.questions) == 2)


async def test_another_worker_answers_instead(
    served: Served, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the first is gone, and not known to be dead yet."""
    monkeypatch.setattr(feed, "QUESTION_S", 0.3)
    worker.is_mute = True
    request = asyncio.create_task(served.http.post("/tokenize", json={"model": "tiny", "prompt": "a"}))
    await until(lambda: worker.questions)
    worker.is_mute = False
    assert (await request).json()["tokens"] == [97]


@pytest.mark.parametrize("way", ["client", "deadline"])
async def test_nobody_waits_any_more(served: Served, worker: FakeWorker, way: str) -> None:
    worker.is_mute = True
    timeout = {"X-Request-Timeout": "0.2"} if way == "deadline" else {}
    request = asyncio.create_task(
        served.http.post("/tokenize", json={"model": "tiny", "prompt": "a"}, headers=timeout)
    )
    await until(lambda: worker.questions or request.done())
    if way == "client":
        request.cancel()
    else:
        assert (await request).json()["error"]["code"] == "deadline_exceeded"
    await until(lambda: not served.gateway.ledger.open)
    outcome = ("cancelled", "") if way == "client" else ("expired", "deadline_exceeded")
    assert await served.outcomes() == {("tokenize", "tiny", *outcome): 1}


async def test_redis_that_is_away(redis: RestartableRedis, settings: Settings) -> None:
    async with alone(redis, settings) as (served, _):
        await until(served.gateway.catalogue.all)
        redis.stop()
        response = await served.http.post("/tokenize", json={"model": "tiny", "prompt": "a"})
        assert (response.status_code, response.json()["error"]["code"]) == (503, "queue_unavailable")
        redis.start()
