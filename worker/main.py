"""The worker's process: one engine, the jobs it is given, and its health."""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import structlog
import uvloop
from prometheus_client import CollectorRegistry

from dllm_stack import garbage, tracing
from dllm_stack import log as logs
from dllm_stack.messages import ModelCard
from dllm_stack.probes import Probes
from dllm_stack.queue import PoolQueue, Registry
from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from dllm_stack.tracing import TracingError
from worker import plan as plans
from worker.claims import Claims
from worker.engine.supervisor import Engine, EngineGivenUp
from worker.metrics import ATTACHED, WorkerMetrics
from worker.plan import Plan, Refusal
from worker.questions import Questions
from worker.run import Runner

log = structlog.get_logger()


class Worker:
    def __init__(self, settings: Settings, plan: Plan, run_dir: Path) -> None:
        self.id = uuid.uuid4().hex
        self._settings = settings.worker
        self._plan = plan
        self._prometheus = CollectorRegistry()
        profile = ATTACHED if settings.worker.engine_url else Path(settings.worker.profile).stem
        metrics = WorkerMetrics(self._prometheus, plan.model.name, profile)
        self._tracer = tracing.tracer(settings.tracing, "worker")
        self._connections = Connections(settings.redis, metrics.redis)
        queue = PoolQueue(self._connections, plan.model.name, settings.queue)
        self._engine = Engine(
            lambda: plan.start(run_dir), plan.check, settings.worker, metrics, self._engine_changed
        )
        block_size, stall_s = plan.model.block_size, settings.worker.stall_s
        follow = plan.blocks_follow_prompt
        runner = Runner(
            self.id,
            queue,
            self._engine,
            plan.renderer,
            metrics,
            block_size,
            stall_s,
            follow,
            plan.decisions,
            self._tracer,
        )
        self._claims = Claims(
            self.id,
            queue,
            Registry(self._connections),
            metrics,
            heartbeat_s=settings.queue.heartbeat_s,
            state=self._state,
            start=runner.run,
            ask=Questions(self.id, queue, plan.renderer, lambda: self._state()[2].context_length).take,
            pod=settings.worker.pod,
        )
        metrics.silence.set_function(lambda: self._engine.silent_s if self._claims.busy else 0.0)

    async def run(self, stop: asyncio.Event, hurry: asyncio.Event) -> None:
        """Runs until `stop`, then drains; `hurry` cuts that short.

        Raises:
            Refusal: its port is taken.
            EngineGivenUp
        """
        probes = Probes(
            self._settings.host,
            self._settings.port,
            self._prometheus,
            ready=self._readiness,
            more_metrics=self._engine.own_metrics,
        )
        async with AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, self._tracer.close)
            stack.push_async_callback(self._connections.aclose)
            try:
                await stack.enter_async_context(probes)
            except OSError as error:
                raise Refusal(f"worker.port: {error.strerror or error}") from error
            log.info("worker starts", worker=self.id, pool=self._plan.model.name, port=probes.port)
            engine = asyncio.create_task(self._engine.run())
            loops = [asyncio.create_task(self._claims.beat()), asyncio.create_task(self._claims.obey())]
            try:
                await _first(stop.wait(), engine, *loops)
                await _first(self._claims.drain(self._settings.drain_s), hurry.wait(), engine, *loops)
            finally:
                await self._claims.drain(0)
                await _cancel(*loops)
                await self._claims.leave()
                await _cancel(engine)
                log.info("worker has left")

    def _state(self) -> tuple[str, int, ModelCard]:
        model, info = self._plan.model, self._engine.info
        if info is None:
            return "loading", 0, model
        if self._engine.ready:
            return "ready", info.slots, self._plan.card(info)
        return "loading", 0, self._plan.card(info)

    def _engine_changed(self) -> None:
        self._claims.changed()

    def _readiness(self) -> tuple[bool, dict[str, object]]:
        card = self._claims.card()
        detail: dict[str, object] = {
            "state": card.state,
            "model": card.model.name if card.model else None,
            "slots": card.slots,
            "busy": self._claims.busy,
        }
        if card.state == "loading":
            detail["loading_s"] = round(time.monotonic() - self._engine.loading_since, 1)
        return card.state == "ready", detail


def run(settings: Settings) -> None:
    """Runs a worker until SIGTERM or SIGINT; a second one stops it at once.

    Raises:
        SystemExit: 2 when the settings cannot work, 1 when the engine cannot be brought to serve. Why is
            then on stderr.
    """
    logs.configure(settings, "worker")
    try:
        plan = plans.make(settings.worker, created=int(time.time()))
        with tempfile.TemporaryDirectory(prefix="dllm-worker-", ignore_cleanup_errors=True) as run_dir:
            uvloop.run(_until_signalled(settings, plan, Path(run_dir)))
    except (Refusal, TracingError) as refusal:
        print(refusal, file=sys.stderr)
        raise SystemExit(2) from None
    except EngineGivenUp as given_up:
        print(given_up, file=sys.stderr)
        raise SystemExit(1) from None


async def _until_signalled(settings: Settings, plan: Plan, run_dir: Path) -> None:
    stop, hurry = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, on_signal)
    worker = Worker(settings, plan, run_dir)
    garbage.keep()
    await worker.run(stop, hurry)


async def _first(*work: Coroutine[Any, Any, Any] | asyncio.Task[Any]) -> None:
    """Returns once one has ended, and raises what it raised. Coroutines that have not are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await _cancel(*(task for task, each in zip(tasks, work, strict=True) if task is not each))


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
