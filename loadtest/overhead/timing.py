"""One streamed chat, timed, and what several have taken."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass, field

import aiohttp


@dataclass(frozen=True)
class Timing:
    """Of one answer.

    Attributes:
        sent, first: Unix time, of the request and of the first text.
        total_s: seconds from the request to the end.
    """

    sent: float
    first: float
    total_s: float
    tokens: int

    @property
    def ttft_s(self) -> float:
        return self.first - self.sent


@dataclass(frozen=True)
class Side:
    """Who is asked.

    Attributes:
        key: an API key, if it wants one.
    """

    name: str
    url: str
    model: str
    key: str = "none"


@dataclass
class Measured:
    """What one side did at one concurrency."""

    answers: list[Timing] = field(default_factory=list)
    busy_s: float = 0.0  # sum of its batches' durations

    def milliseconds(self, name: str, quantile: int) -> float:
        values: list[float] = [getattr(answer, name) * 1000 for answer in self.answers]
        return statistics.quantiles(values, n=100, method="inclusive")[quantile - 1]

    @property
    def tokens_per_s(self) -> float:
        return sum(answer.tokens for answer in self.answers) / self.busy_s


async def chat(session: aiohttp.ClientSession, side: Side, text: str, max_tokens: int) -> Timing:
    body = {
        "model": side.model,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    headers = {"authorization": f"Bearer {side.key}"}
    sent, first, last = time.time(), 0.0, b""
    async with session.post(f"{side.url}/v1/chat/completions", json=body, headers=headers) as response:
        response.raise_for_status()
        async for line in response.content:
            if not line.startswith(b"data: {"):
                continue
            last = line
            if not first and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                first = time.time()
    return Timing(sent, first, time.time() - sent, json.loads(last[6:])["usage"]["completion_tokens"])
