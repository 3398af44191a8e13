"""One streamed request, and every byte of its answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from loadtest.fleet import POOL

CHAT, GENERATE = "/v1/chat/completions", "/generate"


@dataclass(frozen=True)
class Request:
    """`endpoint`: CHAT, or GENERATE, whose events carry token ids too."""

    endpoint: str
    number: int
    max_tokens: int

    def body(self) -> dict[str, Any]:
        text = f"Request {self.number}: say something."
        if self.endpoint == GENERATE:
            sampling = {"max_new_tokens": self.max_tokens}
            return {"model": POOL, "text": text, "sampling_params": sampling, "stream": True}
        return {
            "model": POOL,
            "messages": [{"role": "user", "content": text}],
            "max_tokens": self.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


@dataclass
class Answer:
    """What a stream has said so far.

    Attributes:
        tokens: of the prompt and of the answer; None until told.
        whole: its last event has come.
    """

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish: Any = None
    tokens: tuple[int, int] | None = None
    whole: bool = False

    def begins(self, other: Answer) -> bool:
        """Whether `other` may follow from this one."""
        return other.text.startswith(self.text) and other.token_ids[: len(self.token_ids)] == self.token_ids


@dataclass
class Pauses:
    """Times from one event of a stream to the next, over many streams."""

    longest_s: float = 0.0
    streams: int = 0  # that paused for more than a second


class Refusal(Exception):
    """Nothing was sent; the message is the HTTP status and the error's code."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status} {msgspec.json.decode(body)['error']['code']}")
        self.status = status


class StreamError(Exception):
    """What no client should see: an error event, or a stream that takes back what it has said."""


async def stream(
    http: aiohttp.ClientSession, url: str, request: Request, answer: Answer, pauses: Pauses
) -> None:
    """Sends a request and fills in its answer, as far as that comes.

    Raises:
        Refusal, StreamError
        aiohttp.ClientError: no connection, or it broke before the answer was whole.
    """
    longest_s, last = 0.0, None
    async with http.post(url + request.endpoint, json=request.body()) as response:
        if response.status != 200:
            raise Refusal(response.status, await response.read())
        async for line in response.content:
            if line.startswith(b"data: {"):
                _read(answer, msgspec.json.decode(line[6:]))
                now = time.monotonic()
                longest_s = max(longest_s, now - (last or now))
                last = now
            answer.whole = answer.whole or line.startswith(b"data: [DONE]")
    if not answer.whole:
        raise aiohttp.ClientPayloadError("the stream ended without [DONE]")
    pauses.longest_s = max(pauses.longest_s, longest_s)
    pauses.streams += longest_s > 1


def _read(answer: Answer, event: dict[str, Any]) -> None:
    if "error" in event:
        raise StreamError(f"error event: {event['error']['code']}")
    if meta := event.get("meta_info"):
        if not answer.begins(Answer(event["text"], event["output_ids"])):
            raise StreamError("a stream took back what it had said")
        answer.text, answer.token_ids = event["text"], event["output_ids"]
        answer.finish = meta["finish_reason"]
        answer.tokens = meta["prompt_tokens"], meta["completion_tokens"]
        return
    for choice in event["choices"]:
        answer.text += choice["delta"].get("content") or ""
        answer.finish = choice["finish_reason"] or answer.finish
    if usage := event.get("usage"):
        answer.tokens = usage["prompt_tokens"], usage["completion_tokens"]
