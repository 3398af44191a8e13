"""Gateway, router and worker in the test's own event loop, with a simulator for an engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings, RedisSettings, Settings, TracingSettings, WorkerSettings
from gateway.metrics import OTHER
from loadtest.fleet import MODEL, POOL
from loadtest.simulator.__main__ import CHECKPOINT
from loadtest.simulator.engine import SimulatedEngine
from loadtest.simulator.fixed import FixedPace
from loadtest.simulator.http import Call, listen
from loadtest.simulator.server import Server
from loadtest.simulator.voice import Voice
from router.main import Router
from tests.gateway.served import Served, serving, until
from tests.tracing.collector import Collector
from worker import plan as plans
from worker.main import Worker
from worker.prompt import Renderer


@dataclass
class Engine:
    """A simulator that keeps the headers it is sent."""

    url: str = ""
    traceparents: list[str] = field(default_factory=list)


@asynccontextmanager
async def simulated() -> AsyncIterator[Engine]:
    engine = Engine()
    renderer = Renderer.load(str(CHECKPOINT), None, 4096)
    simulator = Server(SimulatedEngine(Voice(CHECKPOINT), 16, FixedPace(block_s=0.01)), renderer, 1024)

    async def app(call: Call) -> None:
        engine.traceparents += [value for name, value in call.headers.items() if name == "traceparent"]
        await simulator(call)

    server = await listen(app, "127.0.0.1", 0)
    engine.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield engine
    finally:
        server.close()


@dataclass
class Stack:
    served: Served
    engine: Engine


@asynccontextmanager
async def running(redis: RedisSettings, folder: Path, tracing: TracingSettings) -> AsyncIterator[Stack]:
    """When it has ended, all spans have been sent."""
    model = folder / "model.yaml"
    model.write_text(MODEL)
    async with simulated() as engine:
        settings = Settings(
            redis=redis,
            queue=QueueSettings(heartbeat_s=0.1, heartbeat_ttl_s=60),
            worker=WorkerSettings(model=str(model), engine_url=engine.url, port=0, drain_s=60),
            tracing=tracing,
        ).model_copy(update={"router": Settings().router.model_copy(update={"port": 0})})
        plan = plans.make(settings.worker, created=int(time.time()))
        stop = asyncio.Event()
        async with serving(settings) as served:
            services = [
                asyncio.create_task(Worker(settings, plan, folder).run(stop, asyncio.Event())),
                asyncio.create_task(Router(settings).run(stop)),
            ]

            async def is_ready() -> bool:
                return served.gateway.catalogue.label(POOL) != OTHER

            await until(is_ready)
            try:
                yield Stack(served, engine)
            finally:
                stop.set()
                await asyncio.gather(*services)


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with Collector() as collector:
        yield collector


@pytest.fixture
async def traced(
    connections: Connections, redis_settings: RedisSettings, tmp_path: Path, collector: Collector
) -> AsyncIterator[Stack]:
    async with running(
        redis_settings, tmp_path, TracingSettings(endpoint=collector.url, timeout_s=60)
    ) as stack:
        yield stack
