"""A client that goes away takes its job with it, at once and whatever the gateway is doing."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dllm_stack.redis import Connections
from dllm_stack.settings import GatewaySettings, Settings
from gateway import exchange
from gateway.http.channel import Channel
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import RestartableRedis, Served, alone, serving, until

NoKeysLeft = Callable[[], Awaitable[bool]]


async def _send(served: Served, path: str, body: dict[str, Any]) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
    content = json.dumps(body).encode()
    writer.write(b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (path.encode(), len(content)))
    writer.write(content)
    return writer


BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/completions": {"model": "tiny", "prompt": "Hi"},
    "/generate": {"text": "Hi"},
}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("blocks", [0, 2])
async def test_of_a_running_job(
    served: Served, worker: FakeWorker, no_keys_left: NoKeysLeft, path: str, stream: bool, blocks: int
) -> None:
    client = await _send(served, path, {**BODIES[path], "stream": stream})
    run = await worker.claimed()
    for _ in range(blocks):
        await run.commit("text")
    client.close()
    await asyncio.wait_for(run.cancelled.wait(), 120)
    await until(lambda: not served.gateway.ledger.open)
    await until(no_keys_left)
    assert list((await served.outcomes()).items()) == [
        ((path.split("/")[2] if path.startswith("/v1") else "generate", "tiny", "cancelled", ""), 1)
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_of_a_long_answer_only_what_is_sent_is_made(
    served: Served, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """What nobody takes is sent without any waiting, and meanwhile no one else is served."""
    block, blocks = "x" * 5000, 100
    written: list[int] = []
    write = Channel.write

    async def counted(channel: Channel, body: bytes, *, more: bool) -> None:
        await write(channel, body, more=more)
        written.append(len(body))

    monkeypatch.setattr(Channel, "write", counted)
    body = {"model": "tiny", "prompt": "Hi", "n": 128, "stream": stream}
    client = await _send(served, "/v1/completions", body)
    run = await worker.claimed()
    for _ in range(blocks):
        await run.commit(block)
    await run.finish()
    await until(lambda: written)
    client.transport.abort()
    await until(lambda: not served.gateway.ledger.open)
    assert sum(written) < 128 * blocks * len(block) / 2
    assert await served.outcomes() == {("completions", "tiny", "cancelled", ""): 1}


async def test_of_a_waiting_job(
    served: Served, connections: Connections, settings: Settings, no_keys_left: NoKeysLeft
) -> None:
    async with FakeWorker(connections, settings.queue, slots=0).working() as fake:
        client = await _send(served, "/v1/completions", {"model": "tiny", "prompt": ["a", "b"]})

        async def waiting(jobs: int) -> bool:
            return (await fake.queue.depth()).waiting == jobs

        await until(lambda: waiting(2))
        client.close()
        await until(lambda: waiting(0))
        await until(no_keys_left)


async def test_during_its_admission(redis: RestartableRedis, settings: Settings) -> None:
    async with alone(redis, settings) as (served, fake):
        await until(served.gateway.catalogue.all)
        redis.signal(signal.SIGSTOP)
        client = await _send(served, "/generate", {"text": "Hi"})
        await until(lambda: served.gateway.ledger.open)
        client.close()
        redis.signal(signal.SIGCONT)
        await until(lambda: not served.gateway.ledger.open)

        async def forgotten() -> bool:
            depth = await fake.queue.depth()
            return depth.waiting == depth.running == 0

        await until(forgotten)
        assert await served.outcomes() == {("generate", "tiny", "cancelled", ""): 1}


async def test_in_the_middle_of_its_body(served: Served) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
    await until(lambda: served.gateway.ledger.open)
    writer.close()
    await until(lambda: not served.gateway.ledger.open)
    assert await served.outcomes() == {("generate", "other", "cancelled", ""): 1}


async def test_a_client_that_stops_reading_is_given_up_after_its_deadline(
    settings: Settings,
    connections: Connections,
    no_keys_left: NoKeysLeft,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "SEND_GRACE_S", 0.2)
    short = settings.model_copy(update={"gateway": GatewaySettings(request_timeout_s=4)})
    async with FakeWorker(connections, settings.queue).working() as fake, serving(short) as served:
        client = await _send(served, "/generate", {"text": "Hi", "stream": True})
        run = await fake.claimed()
        for _ in range(5):
            await run.commit("x" * 2_000_000)
        await asyncio.wait_for(run.cancelled.wait(), 120)
        await until(lambda: not served.gateway.ledger.open)
        await until(no_keys_left)
        assert await served.outcomes() == {("generate", "tiny", "expired", "deadline_exceeded"): 1}
        client.transport.abort()


async def test_of_many_at_once(served: Served, worker: FakeWorker, no_keys_left: NoKeysLeft) -> None:
    clients = [await _send(served, "/generate", {"text": "Hi", "stream": True}) for _ in range(40)]
    runs = [await worker.claimed() for _ in clients]
    tasks = len(asyncio.all_tasks())
    for client in clients:
        client.close()
    for run in runs:
        await asyncio.wait_for(run.cancelled.wait(), 120)
    await until(no_keys_left)
    await until(lambda: not served.gateway.ledger.open)
    await until(lambda: len(asyncio.all_tasks()) < tasks)
    (feed,) = served.gateway.ledger._feeds.values()
    assert not feed._tickets
    assert feed._cancels.empty()
    assert (await served.outcomes())[("generate", "tiny", "cancelled", "")] == 40
