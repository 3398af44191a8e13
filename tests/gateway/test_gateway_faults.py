"""What clients see when workers, the queue, Redis or their patience give out."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
import openai
import pytest

from dllm_stack.messages import Committed, End, Job, Place, TextPrompt
from dllm_stack.outcomes import ErrorCode, Outcome, Problem
from dllm_stack.queue import START, Committal
from dllm_stack.redis import Connections, RedisError
from dllm_stack.settings import GatewaySettings, QueueSettings, RedisSettings, Settings
from gateway import feed as feed_module
from gateway.feed import Feed
from gateway.ticket import Ticket
from tests.gateway.fake_worker import FakeWorker, Run
from tests.gateway.served import RestartableRedis, Served, alone, serving, until

MESSAGES: Any = [{"role": "user", "content": "Hi"}]
CHAT = {"model": "tiny", "messages": MESSAGES}
PATH = "/v1/chat/completions"

ENGINE_ERROR = Problem(ErrorCode.ENGINE_ERROR, "The engine died.")
TOO_LONG = Problem(ErrorCode.CONTEXT_LENGTH_EXCEEDED, "The prompt is too long.", param="messages")

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


async def test_an_outage_leaves_no_more_cancels_behind_than_it_may(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "MOST_UNSURE", 3)
    feed = served.gateway.ledger.feed("tiny")

    def ticket(job_id: str) -> Ticket:
        return Ticket(Job(id=job_id, pool="tiny", gateway="", prompt=TextPrompt("")), lambda: None)

    for number in range(5):
        feed.release(ticket(str(number)))
    admitted = ticket("admitted")
    admitted.admitted_at = 0.0
    feed.release(admitted)
    waiting = [feed._cancels.get_nowait() for _ in range(feed._cancels.qsize())]
    assert waiting == ["0", "0", "1", "1", "admitted"]


def relayed(served: Served, tokens: int = 1) -> bool:
    """So many tokens of every open request's answer have come."""
    tickets = feed_of(served)._tickets.values()
    return all(len(ticket.committed.token_ids) >= tokens for ticket in tickets)


# Errors of the worker


@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_before_the_first_byte_has_its_status(
    served: Served, worker: FakeWorker, no_keys_left: NoKeysLeft, stream: bool
) -> None:
    request = post(served, stream=stream)
    await (await worker.claimed()).fail(TOO_LONG)
    response = await request
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    assert response.json() == TOO_LONG.body()
    await until(no_keys_left)
    assert await served.outcomes() == {("chat", "tiny", "rejected", "context_length_exceeded"): 1}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {"model": "tiny", "prompt": [1]}, "prompt"),
        ("/generate", {"text": "Hi"}, "text"),
        ("/generate", {"input_ids": [1]}, "input_ids"),
    ],
)
async def test_a_prompt_at_fault_has_the_name_its_client_gave_it(
    served: Served, worker: FakeWorker, path: str, body: dict[str, Any], param: str
) -> None:
    request = asyncio.create_task(served.http.post(path, json=body))
    await (await worker.claimed()).fail(TOO_LONG)
    assert (await request).json()["error"]["param"] == param


async def test_an_error_after_the_first_byte_is_an_event(
    served: Served, worker: FakeWorker, no_keys_left: NoKeysLeft
) -> None:
    request = post(served, stream=True)
    run = await worker.claimed()
    await run.commit("part")
    await until(lambda: relayed(served))
    await run.fail(ENGINE_ERROR)
    response = await request
    assert response.status_code == 200
    assert payloads(response)[-1] == ENGINE_ERROR.body()
    assert "[DONE]" not in response.text
    await until(no_keys_left)
    assert await served.outcomes() == {("chat", "tiny", "failed", "engine_error"): 1}


async def test_the_sdk_raises_it(served: Served, worker: FakeWorker) -> None:
    async def consume() -> None:
        stream = await served.openai.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
        async for _ in stream:
            seen.set()

    seen = asyncio.Event()
    request = asyncio.create_task(consume())
    run = await worker.claimed()
    await run.commit("part")
    await asyncio.wait_for(seen.wait(), 20)
    await run.fail(ENGINE_ERROR)
    with pytest.raises(openai.APIError, match="The engine died") as error:
        await request
    assert (error.value.code, error.value.type) == ("engine_error", "server_error")


async def test_generate_ends_a_broken_stream_as_sglang_does(served: Served, worker: FakeWorker) -> None:
    request = asyncio.create_task(served.http.post("/generate", json={"text": "Hi", "stream": True}))
    run = await worker.claimed()
    await run.commit("part")
    await until(lambda: relayed(served))
    await run.fail(ENGINE_ERROR)
    *_, error, done, empty = (await request).text.split("\n\n")
    assert json.loads(error[6:]) == ENGINE_ERROR.body()
    assert (done, empty) == ("data: [DONE]", "")


async def test_one_failed_prompt_fails_the_request_and_cancels_the_others(
    served: Served, worker: FakeWorker, no_keys_left: NoKeysLeft
) -> None:
    body = {"model": "tiny", "prompt": ["a", "b"]}
    request = asyncio.create_task(served.http.post("/v1/completions", json=body))
    first, second = await worker.claimed(), await worker.claimed()
    await first.fail(ENGINE_ERROR)
    assert (await request).status_code == 502
    await asyncio.wait_for(second.cancelled.wait(), 20)
    await until(no_keys_left)
    assert await served.outcomes() == {("completions", "tiny", "failed", "engine_error"): 1}


async def test_a_job_that_a_worker_cancels_unasked_runs_again(served: Served, worker: FakeWorker) -> None:
    request = post(served)
    await (await worker.claimed()).end(End(outcome=Outcome.CANCELLED))
    await (await worker.claimed()).finish()
    assert (await request).status_code == 200


# Attempts that follow one another


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
    await asyncio.wait_for(run.cancelled.wait(), 20)
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
    await until(lambda: _depth(worker, 0 if running else 1))
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


# Admission


async def test_a_full_queue_answers_429(connections: Connections, settings: Settings) -> None:
    few = settings.model_copy(update={"queue": QueueSettings(heartbeat_s=0.1, max_waiting_jobs=2)})
    fake = FakeWorker(connections, few.queue, slots=0)
    async with serving(few) as served, fake.working():
        waiting = [post(served) for _ in range(2)]
        await until(lambda: _depth(fake, 2))
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
        await until(lambda: _depth(fake, 1))
        still.cancel()
        await until(lambda: _depth(fake, 0))


async def test_of_two_large_requests_one_is_served(connections: Connections, settings: Settings) -> None:
    """There is room for either, not for both; were they to take turns, neither would have enough."""
    few = settings.model_copy(update={"queue": QueueSettings(heartbeat_s=0.1, max_waiting_jobs=15)})
    fake = FakeWorker(connections, few.queue, slots=0)
    body = {"model": "tiny", "prompt": [f"prompt {number}" for number in range(10)]}
    async with serving(few) as served, fake.working():
        both = [asyncio.create_task(served.http.post("/v1/completions", json=body)) for _ in range(2)]
        (refused,), (waiting,) = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        assert refused.result().status_code == 429
        await until(lambda: _depth(fake, 10))
        waiting.cancel()
        await until(lambda: _depth(fake, 0))


async def _depth(worker: FakeWorker, waiting: int) -> bool:
    return (await worker.queue.depth()).waiting == waiting


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
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    assert head.startswith(b"HTTP/1.1 503 ")
    writer.write(b"x" * 50_000)
    assert b"shutting_down" in await asyncio.wait_for(reader.read(), 20)
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
    async with FakeWorker(connections, settings.queue).working() as fake, _impatient(settings) as served:
        request = post(served, stream=True)
        run = await fake.claimed()
        await run.commit("part")
        last = payloads(await request)[-1]
        assert last["error"]["code"] == "deadline_exceeded"
        assert "finish" in last["error"]["message"]
        await asyncio.wait_for(run.cancelled.wait(), 20)
        await until(no_keys_left)


async def test_the_deadline_of_a_body(settings: Settings, connections: Connections) -> None:
    async with _impatient(settings) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
        assert head.startswith(b"HTTP/1.1 504 ")
        assert b"connection: close" in head
        writer.close()


# Redis


@pytest.mark.parametrize("stream", [False, True])
async def test_a_redis_that_restarts_empty_is_given_the_jobs_again(
    redis: RestartableRedis, settings: Settings, stream: bool
) -> None:
    async with alone(redis, settings) as (served, fake):
        request = post(served, stream=stream)
        first = await fake.claimed()
        await first.commit("one ")
        await until(lambda: relayed(served))
        redis.stop()
        redis.start()
        second = await fake.claimed()
        assert second.job == first.job
        assert second.attempt > first.attempt
        assert second.committed == Committed(token_ids=[0], characters=4)
        late = await first.commit("late")
        assert not late.wanted, "the run before is fenced off"
        await second.commit("two")
        await second.finish()
        response = await request
        if stream:
            assert streamed_text(response) == "one two"
        else:
            assert response.json()["choices"][0]["message"]["content"] == "one two"
        # New requests are served as well: the model was not forgotten.
        again = post(served)
        await (await fake.claimed()).finish()
        assert (await again).status_code == 200
        assert await served.outcomes() == {("chat", "tiny", "completed", ""): 2}


async def test_waiting_jobs_survive_a_redis_that_restarts_empty(
    redis: RestartableRedis, settings: Settings
) -> None:
    async with alone(redis, settings) as (served, fake):
        await fake.set_slots(0)
        requests = [post(served) for _ in range(20)]
        await until(lambda: _depth(fake, 20))
        redis.stop()
        redis.start()
        fake.slots = 4
        ids = set()
        for _ in requests:
            run = await fake.claimed()
            ids.add(run.job.id)
            assert await run.finish()
        assert {response.status_code for response in await asyncio.gather(*requests)} == {200}
        assert len(ids) == 20
        assert await served.outcomes() == {("chat", "tiny", "completed", ""): 20}


async def test_jobs_that_redis_lost_do_not_wait_for_a_worker_for_ever(
    redis: RestartableRedis, settings: Settings
) -> None:
    queue = QueueSettings(heartbeat_s=0.1, heartbeat_ttl_s=0.4, worker_grace_s=0.2)
    own = settings.model_copy(update={"redis": RedisSettings(url=redis.url, timeout_s=0.5), "queue": queue})
    connections = Connections(own.redis)
    async with serving(own) as served:
        async with FakeWorker(connections, queue).working() as fake:
            begun = post(served)
            await (await fake.claimed()).commit("part")
            await until(lambda: relayed(served))
            waiting = post(served)
            await fake.claimed()
        redis.stop()
        redis.start()
        response = await waiting
        assert (response.status_code, response.json()["error"]["code"]) == (503, "no_worker")
        response = await begun
        assert (response.status_code, response.json()["error"]["code"]) == (502, "worker_lost")
        assert await served.outcomes() == {
            ("chat", "tiny", "rejected", "no_worker"): 1,
            ("chat", "tiny", "failed", "worker_lost"): 1,
        }
    await connections.aclose()


async def test_a_redis_that_stays_away(redis: RestartableRedis, settings: Settings) -> None:
    async with alone(redis, settings) as (served, fake):
        stream = post(served, stream=True)
        await (await fake.claimed()).commit("part")
        await until(lambda: relayed(served))
        whole = post(served)
        await fake.claimed()
        redis.stop()
        response = await whole
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) > 0
        assert response.json()["error"]["code"] == "queue_unavailable"
        assert payloads(await stream)[-1]["error"]["code"] == "queue_unavailable"
        refused = await served.http.post(PATH, json=CHAT)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        assert refused.json()["error"]["code"] == "queue_unavailable"
        unknown = await served.http.post(PATH, json={**CHAT, "model": "unknown"})
        assert unknown.json()["error"]["code"] == "queue_unavailable"
        assert (await served.http.get("/readyz")).status_code == 503
        assert (await served.http.get("/healthz")).status_code == 200
        assert await served.outcomes() == {
            ("chat", "tiny", "failed", "queue_unavailable"): 2,
            ("chat", "tiny", "rejected", "queue_unavailable"): 1,
            ("chat", "other", "rejected", "queue_unavailable"): 1,
        }


async def test_a_short_absence_of_redis_is_not_noticed(redis: RestartableRedis, settings: Settings) -> None:
    async with alone(redis, settings) as (served, fake):
        request = post(served, stream=True)
        run = await fake.claimed()
        await run.commit("a")
        await until(lambda: relayed(served))
        redis.signal(signal.SIGSTOP)
        sent = asyncio.create_task(_persistent(run, "b"))
        await until(lambda: feed_of(served)._last == START)  # a read has failed
        redis.signal(signal.SIGCONT)
        await sent
        await run.finish()
        assert streamed_text(await request) == "ab"


async def _persistent(run: Run, text: str) -> None:
    """As a real worker does: a commit that failed is repeated."""
    while True:
        try:
            await run.commit(text)
            return
        except RedisError:
            await asyncio.sleep(0.05)


async def test_a_cancel_waits_for_redis(redis: RestartableRedis, settings: Settings) -> None:
    async with alone(redis, settings) as (served, fake):
        request = post(served)
        run = await fake.claimed()
        redis.signal(signal.SIGSTOP)
        request.cancel()
        await until(lambda: not served.gateway.ledger.open)
        redis.signal(signal.SIGCONT)
        await asyncio.wait_for(run.cancelled.wait(), 20)


async def test_a_job_admitted_by_a_redis_too_slow_to_say_so_is_cancelled(
    redis: RestartableRedis, settings: Settings
) -> None:
    async with alone(redis, settings) as (served, fake):
        warm_up = post(served)  # so that Redis knows the script of the next admission
        await (await fake.claimed()).finish()
        await warm_up
        commands = served.gateway.connections.commands
        await commands.config_set("slowlog-log-slower-than", 0)
        await commands.config_set("slowlog-max-len", 10_000)
        redis.signal(signal.SIGSTOP)
        refused = await post(served)  # its admission waits in the sockets of the stopped server
        assert refused.json()["error"]["code"] == "queue_unavailable"
        redis.signal(signal.SIGCONT)
        job_id = refused.headers["x-request-id"]

        async def admitted_and_forgotten() -> bool:
            try:
                seen = [entry["command"] for entry in await commands.slowlog_get(10_000)]
                known = await commands.exists(f"dllm:{{tiny}}:job:{job_id}")
            except RedisError:
                return False
            admitted = f"SET dllm:{{tiny}}:body:{job_id}".encode()
            return not known and any(command.startswith(admitted) for command in seen)

        await until(admitted_and_forgotten)
        await until(lambda: not fake.runs)


async def test_a_job_that_runs_for_nobody_is_cancelled(served: Served, worker: FakeWorker) -> None:
    request = post(served)
    await (await worker.claimed()).finish()
    await request
    ghost = Job(id="f" * 32, pool="tiny", gateway=served.gateway.ledger.id, prompt=TextPrompt("Hi"))
    assert await worker.queue.admit(ghost) is None
    run = await worker.claimed()
    await run.commit("to nobody")
    await asyncio.wait_for(run.cancelled.wait(), 20)
