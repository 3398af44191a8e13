"""What clients see when there is no room, no worker, or no time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import openai
import pytest

from dllm_stack.redis import Connections
from dllm_stack.settings import GatewaySettings, QueueSettings, Settings
from tests.gateway.fake_worker import FakeWorker, Run
from tests.gateway.faults.kit import (
    CHAT,
    PATH,
    NoKeysLeft,
    depth_is,
    payloads,
    post,
    relayed,
)
from tests.gateway.served import Served, begun_in_time, serving, until

# Admission


async def test_a_full_queue_answers_429(connections: Connections, settings: Settings) -> None:
    few = settings.model_copy(update={"queue": QueueSettings(heartbeat_s=0.1, max_waiting_jobs=2)})
    fake = FakeWorker(connections, few.queue, slots=0)
    async with serving(few) as served, fake.working():
        waiting = [post(served) for _ in range(2)]
        await until(lambda: depth_is(fake, 2))
        response = await served.http.post(PATH, json=CHAT)
        assert response.status_code == 429
        assert int(response.headers["retry-after"]) >= 1
        error = response.json()["error"]
        assert (error["code"], error["type"]) == ("queue_full", "rate_limit_error")
        # A request whose second prompt finds no room leaves nothing of its first.
        await fake.set_slots(1)
        run = await fake.claimed()
        await fake.set_slots(0)
        await run.finish()
        done, (still,) = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result().status_code for task in done] == [200]
        with pytest.raises(openai.RateLimitError) as refused:
            await served.openai.completions.create(model="tiny", prompt=["a", "b", "c"])
        assert refused.value.response.headers["retry-after"]
        await until(lambda: depth_is(fake, 1))
        still.cancel()
        await until(lambda: depth_is(fake, 0))


async def test_of_two_large_requests_one_is_served(connections: Connections, settings: Settings) -> None:
    """There is room for either, not for both; were they to take turns, neither would have enough."""
    few = settings.model_copy(update={"queue": QueueSettings(heartbeat_s=0.1, max_waiting_jobs=15)})
    fake = FakeWorker(connections, few.queue, slots=0)
    body = {"model": "tiny", "prompt": [f"prompt {number}" for number in range(10)]}
    async with serving(few) as served, fake.working():
        both = [asyncio.create_task(served.http.post("/v1/completions", json=body)) for _ in range(2)]
        (refused,), (waiting,) = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        assert refused.result().status_code == 429
        await until(lambda: depth_is(fake, 10))
        waiting.cancel()
        await until(lambda: depth_is(fake, 0))


async def test_no_worker_answers_503(served: Served, connections: Connections, settings: Settings) -> None:
    await FakeWorker(connections, settings.queue).set_slots(1)
    await connections.commands.delete("dllm:{tiny}:last_worker")
    response = await served.http.post(PATH, json=CHAT)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "30"
    assert response.json()["error"]["code"] == "no_worker"
    assert await served.outcomes() == {("chat", "tiny", "rejected", "no_worker"): 1}


async def test_a_draining_gateway_takes_what_comes_in_the_first_half_of_its_time(
    served: Served, worker: FakeWorker
) -> None:
    served.gateway.leave(600)
    request = post(served)
    await (await worker.claimed()).finish()
    response = await request
    assert response.status_code == 200
    assert response.headers["connection"] == "close"


async def test_then_it_takes_nothing_new(served: Served, worker: FakeWorker) -> None:
    request = post(served)
    run = await worker.claimed()
    served.gateway.leave(0)
    response = await served.http.post(PATH, json=CHAT)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert response.headers["connection"] == "close"
    assert response.json()["error"]["code"] == "shutting_down"
    await run.finish()
    assert (await request).status_code == 200


async def test_a_draining_gateway_reads_on_so_that_its_refusal_is_seen(served: Served) -> None:
    served.gateway.leave(0)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: 50001\r\n\r\n{")
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)
    assert head.startswith(b"HTTP/1.1 503 ")
    writer.write(b"x" * 50_000)
    assert b"shutting_down" in await asyncio.wait_for(reader.read(), 120)
    writer.close()


# Deadlines


@asynccontextmanager
async def _impatient(settings: Settings) -> AsyncIterator[Served]:
    gateway = GatewaySettings(request_timeout_s=0.3)
    async with serving(settings.model_copy(update={"gateway": gateway})) as served:
        yield served


async def test_the_deadline_of_a_waiting_request(
    connections: Connections, settings: Settings, no_keys_left: NoKeysLeft
) -> None:
    async with FakeWorker(connections, settings.queue, slots=0).working(), _impatient(settings) as served:
        response = await post(served)
        assert response.status_code == 504
        error = response.json()["error"]
        assert (error["code"], error["type"]) == ("deadline_exceeded", "timeout_error")
        assert "did not get a first block within 0.3 s" in error["message"]
        await until(no_keys_left)
        assert await served.outcomes() == {("chat", "tiny", "expired", "deadline_exceeded"): 1}


async def test_the_deadline_of_a_running_stream(
    connections: Connections, settings: Settings, no_keys_left: NoKeysLeft
) -> None:
    async with FakeWorker(connections, settings.queue).working() as fake, serving(settings) as served:

        async def ask(timeout_s: float) -> httpx.Response:
            headers = {"X-Request-Timeout": f"{timeout_s}"}
            return await served.http.post(PATH, json={**CHAT, "stream": True}, headers=headers)

        async def part(run: Run) -> None:
            await run.commit("part")
            await until(lambda: relayed(served))

        run, request = await begun_in_time(fake, ask, part)
        last = payloads(await request)[-1]
        assert last["error"]["code"] == "deadline_exceeded"
        assert "finish" in last["error"]["message"]
        await asyncio.wait_for(run.cancelled.wait(), 120)
        await until(no_keys_left)


async def test_the_deadline_of_a_body(settings: Settings, connections: Connections) -> None:
    async with _impatient(settings) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)
        assert head.startswith(b"HTTP/1.1 504 ")
        assert b"connection: close" in head
        writer.close()
