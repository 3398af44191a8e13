"""kill -9 of a worker in the middle of two answers: another one goes on, and the clients see a pause."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import pairwise
from statistics import median

import aiohttp
import psutil
import pytest

from dllm_stack.local.service import free_port
from dllm_stack.queue import PoolQueue
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings
from loadtest.local_stack import START_S, LocalStack
from tests.waiting import eventually

TOKENS = 640
SECOND = "second"
DECODINGS: list[dict[str, object]] = [{}, {"temperature": 1, "top_p": 0.9, "seed": 7}]  # greedy, sampled


@pytest.fixture
async def second(stack: LocalStack, http: aiohttp.ClientSession) -> AsyncIterator[psutil.Popen]:
    """Another worker, with an engine of its own, beside the one of the stack."""
    port = free_port()
    settings = {
        "DLLM_REDIS__URL": stack.redis_url,
        "DLLM_WORKER__PORT": str(port),
        "DLLM_WORKER__POD": SECOND,
    }
    worker = psutil.Popen(
        [sys.executable, "-m", "dllm_stack.cli", "worker"],
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    async def ready() -> bool:
        assert worker.poll() is None, "the second worker has ended"
        try:
            async with http.get(f"http://127.0.0.1:{port}/readyz") as response:
                return response.status == 200
        except aiohttp.ClientConnectionError:
            return False

    try:
        await eventually(ready, within_s=START_S)
        yield worker
    finally:
        if worker.poll() is None:
            worker.terminate()
            worker.wait(90)


class Stream:
    """An answer as its client sees it.

    Attributes:
        times: when each piece of text came, in seconds of the monotonic clock.
        error: of an error event.
    """

    def __init__(self, decoding: dict[str, object]) -> None:
        self.text = ""
        self.times: list[float] = []
        self.tokens = 0
        self.error: object = None
        self.decoding = decoding

    async def read(self, http: aiohttp.ClientSession, stack: LocalStack, model: str) -> None:
        body = {
            "model": model,
            "messages": [{"role": "user", "content": "Write the number from 1 to 128"}],
            "max_tokens": TOKENS,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.decoding,
        }
        async with http.post(f"{stack.gateway_url}/v1/chat/completions", json=body) as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    self._take(json.loads(line[6:]))

    def _take(self, event: dict[str, object]) -> None:
        self.error = self.error or event.get("error")
        if usage := event.get("usage"):
            assert isinstance(usage, dict)
            self.tokens = usage["completion_tokens"]
        for choice in event.get("choices", []):  # type: ignore[attr-defined]
            if content := choice["delta"].get("content"):
                self.text += content
                self.times.append(time.monotonic())


async def all_begun(streams: list[Stream], reading: asyncio.Future[list[None]]) -> bool:
    return reading.done() or all(stream.times for stream in streams)


@pytest.mark.timeout(3 * START_S)
async def test_answers_go_on_when_their_worker_is_killed(
    stack: LocalStack,
    second: psutil.Popen,
    http: aiohttp.ClientSession,
    redis: Connections,
    model: str,
    record: Callable[[str], None],
) -> None:
    undisturbed = [Stream(decoding) for decoding in DECODINGS]
    for stream in undisturbed:
        await stream.read(http, stack, model)
        assert stream.tokens == TOKENS

    queue = PoolQueue(redis, model, QueueSettings())
    workers = {worker.card.pod: worker.card.id for worker in await queue.workers()}
    (first,) = workers.keys() - {SECOND}
    # The other worker is the heir: it need not be started again.
    await queue.pause_worker(workers[first])
    try:
        while True:
            streams = [Stream(decoding) for decoding in DECODINGS]
            reading = asyncio.gather(*(stream.read(http, stack, model) for stream in streams))
            await eventually(partial(all_begun, streams, reading), within_s=START_S)
            # A worker that stands still ends no job: both are on their way when it is killed.
            second.suspend()
            if (await queue.depth()).running == len(streams):
                break
            second.resume()  # they were faster than this test
            await reading
        second.kill()
        seen = [len(stream.times) for stream in streams]
    finally:
        assert await queue.resume_worker(workers[first])
    await reading
    for stream, before, pieces in zip(streams, undisturbed, seen, strict=True):
        assert stream.error is None
        assert stream.text == before.text
        assert stream.tokens == TOKENS
        usual = median([0, *(b - a for a, b in pairwise(before.times))])
        pause = max([0, *(b - a for a, b in pairwise(stream.times))])
        extra = (stream.times[-1] - stream.times[0]) - (before.times[-1] - before.times[0])
        record(
            f"kill -9 of the worker after {pieces} of {len(stream.times)} pieces, {TOKENS} tokens, "
            f"{stream.decoding}: the same text, {extra:.1f} s later "
            f"({pause:.1f} s without a piece, where {usual:.2f} s are usual)"
        )
