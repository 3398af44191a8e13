"""A chat with a fake worker, and what is made of its answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from dllm_stack.outcomes import ErrorCode, Problem
from gateway.feed import Feed
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served

MESSAGES: Any = [{"role": "user", "content": "Hi"}]
CHAT = {"model": "tiny", "messages": MESSAGES}
PATH = "/v1/chat/completions"

ENGINE_ERROR = Problem(ErrorCode.ENGINE_ERROR, "The engine died.")

NoKeysLeft = Callable[[], Awaitable[bool]]


def post(served: Served, *, stream: bool = False) -> asyncio.Task[httpx.Response]:
    return asyncio.create_task(served.http.post(PATH, json={**CHAT, "stream": stream}))


def payloads(response: httpx.Response) -> list[Any]:
    return [json.loads(line[6:]) for line in response.text.split("\n\n") if line.startswith("data: {")]


def streamed_text(response: httpx.Response) -> str:
    return streamed_text_of(payloads(response))


def streamed_text_of(events: list[Any]) -> str:
    return "".join(choice["delta"].get("content", "") for event in events for choice in event["choices"])


def feed_of(served: Served) -> Feed:
    (feed,) = served.gateway.ledger._feeds.values()
    return feed


def relayed(served: Served, tokens: int = 1) -> bool:
    """So many tokens of every open request's answer have come."""
    tickets = feed_of(served)._tickets.values()
    return all(len(ticket.committed.token_ids) >= tokens for ticket in tickets)


async def depth_is(worker: FakeWorker, waiting: int) -> bool:
    return (await worker.queue.depth()).waiting == waiting
