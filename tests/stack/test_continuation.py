"""kill -9 of a worker in the middle of an answer: another one goes on, and the client sees a pause."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from statistics import median

import aiohttp
import psutil
import pytest

from dllm_stack.local.service import free_port
from dllm_stack.queue import PoolQueue
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings
from loadtest.local_stack import LocalStack
from tests.waiting import eventually

TOKENS, BLOCKS = 256, 3
SECOND = "second"


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
        await eventually(ready, within_s=240)
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
        self._decoding = decoding

    async def read(self, http: aiohttp.ClientSession, stack: LocalStack, model: str) -> None:
        body = {
            "model": model,
            "messages": [{"role": "user", "content": "Write the number from 1 to 128"}],
            "max_tokens": TOKENS,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._decoding,
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


async def holder(queue: PoolQueue) -> str | None:
    """The pod of the worker that runs a job."""
    (busy,) = [worker for worker in await queue.workers() if worker.running]
    return busy.card.pod


@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    "decoding", [{}, {"temperature": 1, "top_p": 0.9, "seed": 7}], ids=["greedy", "sampled"]
)
async def test_an_answer_goes_on_when_its_worker_is_killed(
    stack: LocalStack,
    second: psutil.Popen,
    http: aiohttp.ClientSession,
    redis: Connections,
    model: str,
    record: Callable[[str], None],
    decoding: dict[str, object],
) -> None:
    undisturbed = Stream(decoding)
    await undisturbed.read(http, stack, model)
    assert undisturbed.tokens == TOKENS
    gap = median(b - a for a, b in pairwise(undisturbed.times))

    queue = PoolQueue(redis, model, QueueSettings())
    stream = Stream(decoding)
    reading = asyncio.create_task(stream.read(http, stack, model))

    async def has_blocks() -> bool:
        return len(stream.times) >= BLOCKS

    await eventually(has_blocks)
    (second if await holder(queue) == SECOND else stack.service("worker")).kill()
    seen = len(stream.times)
    await reading
    assert stream.error is None
    assert stream.text == undisturbed.text
    assert stream.tokens == TOKENS
    assert len(stream.times) > seen, "it was over before the kill"
    pause = max(b - a for a, b in pairwise(stream.times))
    extra = (stream.times[-1] - stream.times[0]) - (undisturbed.times[-1] - undisturbed.times[0])
    record(
        f"kill -9 of the worker after {seen} of {len(stream.times)} pieces, {TOKENS} tokens, {decoding}: "
        f"the same text, {extra:.1f} s later ({pause:.1f} s without a piece, where {gap:.2f} s are usual)"
    )
