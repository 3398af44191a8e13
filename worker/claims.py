"""The jobs a worker has claimed: takes its commands, runs them, and tells the queue what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

import structlog

from dllm_stack.log import of_job
from dllm_stack.messages import Cancel, Claim, Command, Job, ModelCard, Question, WorkerCard
from dllm_stack.queue import START, PoolQueue, Registry
from dllm_stack.redis import RedisError
from worker.metrics import WorkerMetrics
from worker.run import Run

log = structlog.get_logger()

_REDIS_RETRY_S = 0.2
_REMEMBERED = 10_000  # claims; those that a heartbeat has trimmed cannot be read again
_GIVE_BACK_S = 3.0  # stopping the engine's request takes up to 1 s, telling the queue about as long

Key = tuple[str, int]  # job id and attempt


class Claims:
    """Use: `beat` and `obey` run until they are cancelled; `drain` comes before that.

    Args:
        state: loading | ready, with the slots that the engine has, and its model.
        start: makes the run of a claim.
        ask: takes a question.
        pod: the Kubernetes pod that this is.
    """

    def __init__(
        self,
        worker_id: str,
        queue: PoolQueue,
        registry: Registry,
        metrics: WorkerMetrics,
        *,
        heartbeat_s: float,
        state: Callable[[], tuple[str, int, ModelCard]],
        start: Callable[[Claim], Run],
        ask: Callable[[Question], None],
        pod: str | None = None,
    ) -> None:
        self.draining = False
        self._worker_id = worker_id
        self._queue = queue
        self._registry = registry
        self._metrics = metrics
        self._heartbeat_s = heartbeat_s
        self._state = state
        self._start = start
        self._ask = ask
        self._pod = pod
        self._changed = asyncio.Event()
        self._acked = START
        self._known: dict[Key, None] = {}
        self._runs: dict[Key, Run] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    @property
    def busy(self) -> int:
        return len(self._runs)

    def card(self) -> WorkerCard:
        state, slots, model = self._state()
        if self.draining:
            state, slots = "draining", 0
        return WorkerCard(
            id=self._worker_id, pool=self._queue.pool, slots=slots, state=state, pod=self._pod, model=model
        )

    def changed(self) -> None:
        """Sends a heartbeat at once: the slots are others."""
        self._metrics.slots.set(self.card().slots)
        self._changed.set()

    async def beat(self) -> NoReturn:
        """Heartbeats."""
        away = False
        while True:
            self._changed.clear()
            card = self.card()
            # Taken together: the queue takes back what was claimed up to `acked` and is not held.
            acked, held = self._acked, sorted({job_id for job_id, _ in self._runs})
            try:
                for job_id in await self._queue.worker_heartbeat(card, acked=acked, held=held):
                    self._cancel(job_id)
                await self._registry.publish(card.pool, card.model)
            except RedisError as error:
                if not away:
                    log.warning("Redis does not answer", error=str(error))
                away = True
            else:
                if away:
                    log.info("Redis answers again")
                away = False
            try:
                async with asyncio.timeout(_REDIS_RETRY_S if away else self._heartbeat_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def obey(self) -> NoReturn:
        """Takes commands from the queue."""
        after = START
        while True:
            try:
                after, commands = await self._queue.commands(self._worker_id, after)
            except RedisError:
                after = START  # it may have lost everything, and its ids then begin anew
                await asyncio.sleep(_REDIS_RETRY_S)
                continue
            for command in commands:
                self._take(command)
            if commands:
                self._acked = after

    async def drain(self, within_s: float) -> None:
        """No job is taken any more; those that run have `within_s`, then they are given back."""
        self.draining = True
        self.changed()
        await self._ended(within_s)
        for run in self._runs.values():
            run.give_back()
        await self._ended(_GIVE_BACK_S)
        for task in self._tasks.values():
            task.cancel()
        await self._ended(_GIVE_BACK_S)

    async def leave(self) -> None:
        """To be called last, after `beat` has ended. What is still held goes back to the queue."""
        try:
            await self._queue.worker_leave(self._worker_id)
        except RedisError as error:
            log.warning("left without a word to the queue", error=str(error))

    async def _ended(self, within_s: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=within_s)

    def _take(self, command: Command) -> None:
        match command:
            case Cancel(job_id, attempt):
                if (run := self._runs.get((job_id, attempt))) is not None:
                    run.cancel()
            case Question():
                self._ask(command)
            case Claim(job, attempt):
                key = (job.id, attempt)
                if key in self._known:
                    return
                self._remember(key)
                self._cancel(job.id)  # an older attempt of it has been fenced off
                run = self._start(command)
                if self.draining:
                    run.give_back()
                self._runs[key] = run
                self._tasks[key] = asyncio.create_task(self._execute(job, attempt, run))
                self._metrics.busy.set(self.busy)

    async def _execute(self, job: Job, attempt: int, run: Run) -> None:
        key = job.id, attempt
        structlog.contextvars.bind_contextvars(**of_job(job), attempt=attempt)
        try:
            outcome = await run.execute()
            self._metrics.ran(outcome)
            log.debug("run ended", outcome=outcome)
        finally:
            del self._runs[key], self._tasks[key]
            self._metrics.busy.set(self.busy)

    def _cancel(self, job_id: str) -> None:
        for (held, _), run in self._runs.items():
            if held == job_id:
                run.cancel()

    def _remember(self, key: Key) -> None:
        self._known[key] = None
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
