"""A closed loop of streamed /generate requests, to an engine or to the simulator, and what it saw."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean

import aiohttp
import msgspec

from worker.engine.wire import Event

_decoder = msgspec.json.Decoder(Event)


@dataclass(frozen=True)
class Answer:
    """
    Attributes:
        asked_at: seconds of time.perf_counter, as are those of `blocks`.
        blocks: when each came, and the answer's length then.
        forwards: of each block.
    """

    prompt_tokens: int
    asked_at: float
    blocks: list[tuple[float, int]]
    forwards: list[int]

    @property
    def ttft_s(self) -> float:
        return self.blocks[0][0] - self.asked_at

    @property
    def tokens(self) -> int:
        return self.blocks[-1][1]

    @property
    def intervals_s(self) -> Iterator[float]:
        for (before, _), (after, _) in pairwise(self.blocks):
            yield after - before


@dataclass(frozen=True)
class Seen:
    """Means over one load."""

    ttft_s: float
    interval_s: float
    tokens_per_s: float
    tokens_per_forward: float

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> Seen:
        begun = min(each.asked_at for each in answers)
        ended = max(each.blocks[-1][0] for each in answers)
        tokens = sum(each.tokens for each in answers)
        return cls(
            mean(each.ttft_s for each in answers),
            mean(interval for each in answers for interval in each.intervals_s),
            tokens / (ended - begun),
            tokens / sum(sum(each.forwards) for each in answers),
        )


async def ask(http: aiohttp.ClientSession, url: str, prompt: list[int], tokens: int) -> Answer:
    """
    Raises:
        aiohttp.ClientError
    """
    sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    body = {"input_ids": prompt, "sampling_params": sampling, "stream": True}
    began, blocks, costs = time.perf_counter(), [(0.0, 0)], []
    async with http.post(f"{url}/generate", json=body, raise_for_status=True) as response:
        async for line in response.content:
            if not line.startswith(b"data: {"):
                continue
            event, now = _decoder.decode(line[6:]), time.perf_counter()
            # An engine also sends events without anything new.
            if (length := len(event.output_ids)) > blocks[-1][1]:
                blocks.append((now, length))
                costs = event.meta_info.dllm_forwards if event.meta_info else []
    return Answer(len(prompt), began, blocks[1:], [cost for cost in costs if cost])


async def together(url: str, prompts: Sequence[list[int]], tokens: int, clients: int) -> list[Answer]:
    """So many clients, each of which asks again when it is answered."""
    left, answers = iter(prompts), []

    async def client() -> None:
        for prompt in left:
            answers.append(await ask(http, url, prompt, tokens))

    timeout, connector = aiohttp.ClientTimeout(total=600), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector, read_bufsize=2**20) as http:
        await asyncio.gather(*(client() for _ in range(clients)))
    return answers
