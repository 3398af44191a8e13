"""`dllm-stack top` on a terminal and into a pipe, with Redis and without, and the arithmetic behind it."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from dllm_stack.local.service import free_port
from dllm_stack.operator.readings import Reading
from dllm_stack.operator.top import urls_of
from dllm_stack.queue import PoolQueue
from dllm_stack.settings import GatewaySettings, RedisSettings, RouterSettings, Settings, UpSettings
from tests.operator.command_line import run
from tests.operator.terminal import on_terminal
from tests.queue.kit import POOL, beat, job
from tests.waiting import eventually

BUCKETS = (0.1, 0.2, 0.5, 1)


class Told:
    """Metrics, named and labelled as a gateway's."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.ttft = Histogram(
            "dllm_time_to_first_token_seconds",
            "-",
            ["model", "tier"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.requests = Counter("dllm_requests", "-", ["model", "outcome"], registry=self.registry)

    def answer(self, ttft: float, tier: str = "default", outcome: str = "completed") -> None:
        self.ttft.labels(POOL, tier).observe(ttft)
        self.requests.labels(POOL, outcome).inc()

    def read(self) -> Reading:
        return Reading.parse(generate_latest(self.registry).decode())


@dataclass
class Service:
    told: Told
    url: str
    broken: bool = False


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """A service's /metrics."""
    there = Service(Told(), f"http://127.0.0.1:{(port := free_port())}/metrics")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=b"<html>" if there.broken else generate_latest(there.told.registry))

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield there
    await runner.cleanup()


def test_quantiles_are_prometheus_over_all_labels_that_are_not_named() -> None:
    told = Told()
    for _ in range(8):
        told.answer(0.15)
    for _ in range(2):
        told.answer(0.4, tier="flex")
    reading = told.read()
    assert reading.quantile("dllm_time_to_first_token_seconds", 0.5, model=POOL) == pytest.approx(
        0.1 + 0.1 * 5 / 8
    )
    assert reading.quantile("dllm_time_to_first_token_seconds", 0.9, model=POOL) == pytest.approx(0.35)
    assert reading.quantile("dllm_time_to_first_token_seconds", 0.5, tier="flex") == pytest.approx(0.35)
    assert reading.quantile("dllm_time_to_first_token_seconds", 0.5, model="other") is None


def test_beyond_the_last_bound_is_that_bound() -> None:
    told = Told()
    told.answer(7.0)
    assert told.read().quantile("dllm_time_to_first_token_seconds", 0.95) == 1


def test_a_service_that_began_anew_has_counted_from_nothing() -> None:
    before, after = Told(), Told()
    for _ in range(5):
        before.answer(0.15)
    after.answer(0.4)
    after.answer(0.4)
    gained = after.read().since(before.read())
    assert gained.sum("dllm_requests_total", model=POOL) == 2
    assert before.read().since(before.read()).sum("dllm_requests_total") == 0
    assert (before.read() + after.read()).sum("dllm_requests_total") == 7


def test_addresses_are_those_of_the_settings() -> None:
    settings = Settings(
        gateway=GatewaySettings(host="0.0.0.0"),
        router=RouterSettings(host="::1", port=7001),
        up=UpSettings(models=["a", "b"]),
    )
    assert urls_of(settings) == [
        "http://127.0.0.1:8000/metrics",
        "http://[::1]:7001/metrics",
        "http://127.0.0.1:8002/metrics",
        "http://127.0.0.1:8003/metrics",
    ]


async def test_into_a_pipe_it_prints_once(
    queue: PoolQueue, redis_settings: RedisSettings, service: Service
) -> None:
    await beat(queue)
    await queue.admit(job(1, tenant="acme"))
    service.told.answer(0.15)
    service.told.answer(0.15, outcome="failed")
    gone = f"http://127.0.0.1:{free_port()}/metrics"
    result = await run(redis_settings, "--metrics", service.url, "--metrics", gone, command="top")
    assert (result.status, result.err) == (0, "")
    assert "\x1b" not in result.out
    assert "acme" in result.out
    assert "answers, since the services' starts" in result.out
    [row] = [row for row in result.rows if row[:2] == [POOL, "2"]]
    assert row[:6] == [POOL, "2", "50%", "-", "150 ms", "195 ms"]
    assert f"no answer from {gone}" in result.out


async def test_without_redis_it_shows_what_services_tell(service: Service) -> None:
    service.told.answer(0.15)
    redis = RedisSettings(url=f"redis://127.0.0.1:{free_port()}/0")
    result = await run(redis, "--metrics", service.url, command="top")
    assert (result.status, result.err) == (0, "")
    assert f"Redis at {redis.url}: " in result.out
    assert [POOL, "1", "0%"] in [row[:3] for row in result.rows]


async def test_with_nothing_there_it_says_so_and_fails(service: Service) -> None:
    service.broken = True
    redis = RedisSettings(url=f"redis://127.0.0.1:{free_port()}/0")
    result = await run(redis, "--metrics", service.url, command="top")
    assert (result.status, result.out) == (1, "")
    assert redis.url in result.err
    assert f"no answer from {service.url}" in result.err
    assert "Traceback" not in result.err


async def test_on_a_terminal_it_goes_on_until_it_is_interrupted(
    queue: PoolQueue, redis_settings: RedisSettings, service: Service
) -> None:
    await beat(queue)
    async with on_terminal(redis_settings, "top", "--metrics", service.url) as terminal:
        await eventually(lambda: terminal.shows("ready"))
        await eventually(lambda: terminal.shows("No service has told of a model yet."))
        service.told.answer(0.15)
        await eventually(lambda: terminal.shows("in the last"))
        await eventually(lambda: terminal.shows("150 ms"))
        service.broken = True
        await eventually(lambda: terminal.shows("no answer from"))
        await queue.admit(job(1, tenant="acme"))
        await eventually(lambda: terminal.shows("acme"))
        terminal.process.send_signal(signal.SIGINT)
        assert await terminal.process.wait() == 0
        assert not await terminal.shows("Traceback")
