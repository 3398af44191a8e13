"""Bodies that something happened to: each is answered or refused as the OpenAPI document says, at once, and
nothing malformed reaches a worker."""

from __future__ import annotations

import asyncio
import http.client
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from dllm_stack.capabilities import Capability
from dllm_stack.decoding import Decision, Sampling
from dllm_stack.messages import ChatPrompt, Decoding, Job, TextPrompt, TokenPrompt
from dllm_stack.redis import Connections
from dllm_stack.settings import GatewaySettings, QueueSettings, RedisSettings, Settings
from tests.conformance.described import Described
from tests.conformance.mutations import MODEL, TOKEN_BY_TOKEN, Mutation, mutations
from tests.conformance.well_formed import StrictWorker, check_job
from tests.gateway.served import Served, serving, until
from tests.gateway.test_gateway_decoding import CARD

COUNT = int(os.environ.get("DLLM_TEST_MUTATIONS", "300"))
HANGS_S = 120.0

pytestmark = pytest.mark.timeout(300 + COUNT // 10)


class Stage:
    """A gateway and a strict worker, in a thread of their own, and a client's connection."""

    def __init__(self, redis: RedisSettings) -> None:
        self._settings = Settings(
            redis=redis,
            queue=QueueSettings(heartbeat_s=0.5, heartbeat_ttl_s=60.0),
            gateway=GatewaySettings(max_body_bytes=50_000),
        )
        self._started, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=lambda: uvloop.run(self._serve()))
        self._http: http.client.HTTPConnection | None = None
        self.served: Served
        self.workers: list[StrictWorker] = []
        self.left: list[bytes] = []  # keys of jobs in Redis, at the end
        self.outcomes: dict[Any, float] = {}

    def __enter__(self) -> Stage:
        self._thread.start()
        assert self._started.wait(200)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(200)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        connections = Connections(self._settings.redis)
        await connections.commands.flushall()
        queue, blocks = self._settings.queue, ["Hello ", "world"]
        one = StrictWorker(connections, queue, MODEL, blocks=blocks, decoding=CARD, tools="tool_call_tags")
        other = StrictWorker(
            connections, queue, TOKEN_BY_TOKEN, name="other", blocks=blocks, autoregressive=list(Capability)
        )
        self.workers = [one, other]
        async with serving(self._settings) as self.served, one.working(), other.working():
            self._started.set()
            await self._over.wait()

            async def no_jobs() -> bool:
                self.left = [key async for key in connections.commands.scan_iter("dllm:*:job:*")]
                return not self.left

            await until(no_jobs)
            self.outcomes = dict(await self.served.outcomes())
        await connections.aclose()

    def send(self, mutation: Mutation) -> tuple[int, str, bytes]:
        """Status, media type and body of the answer."""
        if self._http is None:
            self._http = http.client.HTTPConnection("127.0.0.1", self.served.port, timeout=HANGS_S)
        try:
            headers = {"content-type": "application/json"}
            self._http.request("POST", mutation.path, body=mutation.body, headers=headers)
            response = self._http.getresponse()
            body = response.read()
        except BaseException:
            self._http.close()
            self._http = None
            raise
        return response.status, response.headers.get_content_type(), body


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt": TokenPrompt([-1])},
        {"prompt": TextPrompt("\ud800")},
        {"prompt": ChatPrompt([{"role": "robot", "content": "Hello"}])},
        {"decoding": Decoding(max_tokens=0)},
        {"decoding": Decoding(stop=["a"] * 5)},
        {"decoding": Decoding(sampling=Sampling(temperature=float("nan")))},
        {"decoding": Decoding(decision=Decision(algorithm="LowConfidence", parameters={"threshold": 2}))},
    ],
    ids=str,
)
async def test_the_strict_worker_notices(connections: Connections, wrong: dict[str, Any]) -> None:
    worker = StrictWorker(connections, QueueSettings(), MODEL, decoding=CARD)
    right = Job(id="0" * 32, pool=MODEL, gateway="g", prompt=TextPrompt("Hello"), timeout_s=1)
    check_job(right, worker)
    with pytest.raises((AssertionError, ValueError)):
        check_job(replace(right, **wrong), worker)


def test_what_happens_to_bodies(redis_settings: RedisSettings, record: Callable[[str], None]) -> None:
    stage = Stage(redis_settings)
    described = Described()
    statuses: Counter[int] = Counter()
    longest = 0.0

    @settings(
        max_examples=COUNT,
        deadline=None,
        database=None,
        derandomize="DLLM_TEST_MUTATIONS" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )
    @given(mutations())
    def send(mutation: Mutation) -> None:
        nonlocal longest
        before = time.monotonic()
        status, media, body = stage.send(mutation)
        longest = max(longest, time.monotonic() - before)
        statuses[status] += 1
        described.check(mutation.path, status, media, body)
        assert status in (200, 400, 404, 413, 504), body
        assert [fault for worker in stage.workers for fault in worker.faults()] == []

    with stage:
        began = time.monotonic()
        send()
        seconds = time.monotonic() - began
    assert stage.left == []
    assert not [labels for labels in stage.outcomes if "internal_error" in labels], stage.outcomes
    assert statuses[200] > COUNT / 20
    taken = [worker.taken for worker in stage.workers]
    assert sum(taken) >= statuses[200]
    record(
        f"{statuses.total()} mutated bodies in {seconds:.0f} s: {dict(sorted(statuses.items()))}; "
        f"the longest took {longest:.2f} s; {taken} jobs and questions reached the workers, none malformed"
    )
