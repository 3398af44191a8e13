"""What clients see when workers are lost: an answer that goes on, or begins anew, or ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import cast

import pytest

from dllm_stack.messages import Committed, End, Job, Place, TextPrompt
from dllm_stack.outcomes import Outcome
from dllm_stack.queue import Committal
from dllm_stack.redis import Connections
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.faults.kit import (
    NoKeysLeft,
    depth_is,
    payloads,
    post,
    relayed,
    streamed_text,
    streamed_text_of,
)
from tests.gateway.served import Served, until


async def test_a_job_that_a_worker_cancels_unasked_runs_again(served: Served, worker: FakeWorker) -> None:
    request = post(served)
    await (await worker.claimed()).end(End(outcome=Outcome.CANCELLED))
    await (await worker.claimed()).finish()
    assert (await request).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_goes_on_after_a_lost_worker(
    served: Served, worker: FakeWorker, no_keys_left: NoKeysLeft, stream: bool
) -> None:
    request = post(served, stream=stream)
    first = await worker.claimed()
    await first.commit("one ")
    await first.commit("two ")
    assert await first.give_back() == "requeued"
    second = await worker.claimed()
    assert second.job == first.job
    assert second.attempt > first.attempt
    assert second.committed == Committed(token_ids=[0, 1], characters=8)
    await second.commit("three")
    await second.finish()
    response = await request
    if stream:
        assert streamed_text(response) == "one two three"
    else:
        assert response.json()["choices"][0]["message"]["content"] == "one two three"
        assert response.json()["usage"]["completion_tokens"] == 3
    await until(no_keys_left)
    assert await served.outcomes() == {("chat", "tiny", "completed", ""): 1}


async def test_a_job_without_an_answer_begins_anew_after_a_lost_worker(
    served: Served, worker: FakeWorker
) -> None:
    request = post(served, stream=True)
    assert await (await worker.claimed()).give_back() == "requeued"
    second = await worker.claimed()
    assert second.committed == Committed()
    await second.commit("all")
    await second.finish()
    assert streamed_text(await request) == "all"


async def test_a_stream_that_cost_too_many_workers_ends(served: Served, worker: FakeWorker) -> None:
    request = post(served, stream=True)
    for attempt in range(3):
        run = await worker.claimed()
        await run.commit(f"part {attempt}")
        fate = await run.give_back()
    assert fate == "failed"
    response = await request
    assert streamed_text_of(payloads(response)[:-1]) == "part 0part 1part 2"
    assert payloads(response)[-1]["error"]["code"] == "worker_lost"
    assert await served.outcomes() == {("chat", "tiny", "failed", "worker_lost"): 1}


async def test_the_last_block_may_come_with_the_end(served: Served, worker: FakeWorker) -> None:
    requests = [post(served, stream=stream) for stream in (False, True)]
    for _ in requests:
        run = await worker.claimed()
        await run.commit("one ")
        await run.finish(block=run.block("two", tokens=2))
    whole, streamed = await asyncio.gather(*requests)
    assert whole.json()["choices"][0]["message"]["content"] == streamed_text(streamed) == "one two"
    assert whole.json()["usage"]["completion_tokens"] == 3


async def test_the_last_block_with_the_end_is_two_events_of_generate(
    served: Served, worker: FakeWorker
) -> None:
    request = asyncio.create_task(served.http.post("/generate", json={"text": "Hi", "stream": True}))
    run = await worker.claimed()
    await run.finish(block=run.block("all"))
    events = payloads(await request)
    assert [event["text"] for event in events] == ["all", "all"]
    assert [event["meta_info"]["finish_reason"] is None for event in events] == [True, False]


async def test_what_comes_twice_is_sent_once(served: Served, worker: FakeWorker) -> None:
    """As when Redis was set back: it has lost what the gateway has, and gets it again, cut otherwise."""
    request = post(served, stream=True)
    first = await worker.claimed()
    for text in "abc":
        await first.commit(text)
    await until(lambda: relayed(served, tokens=3))
    key = f"dllm:{{tiny}}:job:{first.job.id}"
    redis = served.gateway.connections.commands
    await cast(Awaitable[int], redis.hset(key, mapping={"tokens": 1, "characters": 1}))
    await redis.set(f"dllm:{{tiny}}:answer:{first.job.id}", bytes(4))
    assert await first.commit("d") == Committal(wanted=True, tokens=1)
    await first.send(Place(1, 1), "bcd", [1, 2, 3])
    await first.finish()
    assert streamed_text(await request) == "abcd"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("after", "token_ids"), [(Place(0, 0), [7]), (Place(2, 2), [2])], ids=["other tokens", "a gap"]
)
async def test_an_answer_that_does_not_go_on_ends_the_request(
    served: Served,
    worker: FakeWorker,
    no_keys_left: NoKeysLeft,
    stream: bool,
    after: Place,
    token_ids: list[int],
) -> None:
    request = post(served, stream=stream)
    run = await worker.claimed()
    await run.commit("a")
    await until(lambda: relayed(served))
    key = f"dllm:{{tiny}}:job:{run.job.id}"  # so that Redis takes it
    place = {"tokens": after.tokens, "characters": after.characters}
    await cast(Awaitable[int], served.gateway.connections.commands.hset(key, mapping=place))
    await run.send(after, "a", token_ids)
    response = await request
    error = payloads(response)[-1]["error"] if response.status_code == 200 else response.json()["error"]
    assert error["code"] == "worker_lost"
    await asyncio.wait_for(run.cancelled.wait(), 120)
    await until(no_keys_left)
    assert await served.outcomes() == {("chat", "tiny", "failed", "worker_lost"): 1}


@pytest.mark.parametrize("running", [False, True])
async def test_a_gateway_taken_for_dead_admits_its_jobs_again(
    served: Served, worker: FakeWorker, connections: Connections, running: bool
) -> None:
    if not running:
        await worker.set_slots(0)
    request = post(served)
    if running:
        first = await worker.claimed()
        await first.commit("one ")
        await until(lambda: relayed(served))
    await until(lambda: depth_is(worker, 0 if running else 1))
    orphans = 0
    while not orphans:  # a heartbeat may come between the two
        await connections.commands.zadd("dllm:{tiny}:gateways", {served.gateway.ledger.id: 0})
        orphans = (await worker.queue.reclaim()).orphans
    await worker.set_slots(64)
    second = await worker.claimed()
    await second.commit("two")
    await second.finish()
    content = (await request).json()["choices"][0]["message"]["content"]
    assert content == ("one two" if running else "two")


async def test_a_job_that_runs_for_nobody_is_cancelled(served: Served, worker: FakeWorker) -> None:
    request = post(served)
    await (await worker.claimed()).finish()
    await request
    ghost = Job(id="f" * 32, pool="tiny", gateway=served.gateway.ledger.id, prompt=TextPrompt("Hi"))
    assert await worker.queue.admit(ghost) is None
    run = await worker.claimed()
    await run.commit("to nobody")
    await asyncio.wait_for(run.cancelled.wait(), 120)
