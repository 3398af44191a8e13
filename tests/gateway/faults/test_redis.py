"""What clients see when Redis gives out."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from dllm_stack.messages import Committed, Job, TextPrompt
from dllm_stack.queue import START
from dllm_stack.redis import Connections, RedisError
from dllm_stack.settings import GatewaySettings, QueueSettings, RedisSettings, Settings
from gateway import feed as feed_module
from gateway.ticket import Ticket
from tests.gateway.fake_worker import FakeWorker, Run
from tests.gateway.faults.kit import (
    CHAT,
    PATH,
    depth_is,
    feed_of,
    payloads,
    post,
    relayed,
    streamed_text,
)
from tests.gateway.served import RestartableRedis, Served, alone, serving, until


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
        await until(lambda: depth_is(fake, 20))
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
    queue = QueueSettings(heartbeat_s=0.1, heartbeat_ttl_s=3, worker_grace_s=1)
    own = settings.model_copy(update={"redis": RedisSettings(url=redis.url, timeout_s=60), "queue": queue})
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
    async with alone(redis, settings, timeout_s=5) as (served, fake):
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
    settings = settings.model_copy(update={"gateway": GatewaySettings(reply_grace_s=600)})
    async with alone(redis, settings, timeout_s=3) as (served, fake):
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


async def test_a_gateway_that_stood_still_does_not_take_redis_for_away(
    redis: RestartableRedis, settings: Settings
) -> None:
    """As a machine does that is overloaded, or moved to another host."""
    async with alone(redis, settings, timeout_s=1) as (served, fake):
        request = post(served, stream=True)
        run = await fake.claimed()
        await _persistent(run, "a")
        await until(lambda: relayed(served))
        time.sleep(4)  # noqa: ASYNC251
        await _persistent(run, "b")
        await until(lambda: relayed(served, tokens=2))
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
        await asyncio.wait_for(run.cancelled.wait(), 120)


async def test_a_job_admitted_by_a_redis_too_slow_to_say_so_is_cancelled(
    redis: RestartableRedis, settings: Settings
) -> None:
    async with alone(redis, settings, timeout_s=3) as (served, fake):
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
