"""One attempt of one job on the engine, from its claim to the word that ends it in the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import structlog

from dllm_stack.messages import Block, Claim, End
from dllm_stack.outcomes import ErrorCode, Outcome, Problem, RequestError
from dllm_stack.queue import PoolQueue
from dllm_stack.redis import RedisError
from worker.engine.client import EngineFault, EngineRefusal, Generation, Progress
from worker.engine.supervisor import Engine
from worker.metrics import WorkerMetrics
from worker.prompt import Renderer, answer_room
from worker.text import TextGate

log = structlog.get_logger()

_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.05, 1.0

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class GiveBack:
    """The job returns to the queue without an answer."""

    counts: bool  # as one of its tries


_CANCELLED = End(outcome=Outcome.CANCELLED)


@dataclass(frozen=True)
class Runner:
    """What every run of a worker needs."""

    worker_id: str
    queue: PoolQueue
    engine: Engine
    renderer: Renderer
    metrics: WorkerMetrics
    stall_s: float

    def run(self, claim: Claim) -> Run:
        return Run(self, claim)


class Run:
    """Holds the job's slot until `execute` returns: the engine has then stopped, and the queue knows."""

    def __init__(self, runner: Runner, claim: Claim) -> None:
        self._runner = runner
        self._job = claim.job
        self._attempt = claim.attempt
        self._seq = 0
        self._interrupted: asyncio.Future[End | GiveBack] = asyncio.get_running_loop().create_future()

    def cancel(self) -> None:
        """Nobody wants the answer, or the job is not this worker's any more."""
        self._interrupt(_CANCELLED)

    def give_back(self) -> None:
        """Somebody else shall run the job."""
        self._interrupt(GiveBack(counts=False))

    def _interrupt(self, verdict: End | GiveBack) -> None:
        if not self._interrupted.done():
            self._interrupted.set_result(verdict)

    async def execute(self) -> str:
        """Runs the job and ends it.

        Returns:
            How: an Outcome, or `requeued`, or `fenced`.
        """
        verdict = await self._verdict()
        queue, worker, job_id = self._runner.queue, self._runner.worker_id, self._job.id
        if isinstance(verdict, GiveBack):
            counts = verdict.counts
            return await _once_redis_answers(
                lambda: queue.release(worker, job_id, self._attempt, counts=counts)
            )
        end = verdict
        held = await _once_redis_answers(lambda: queue.finish(worker, job_id, self._attempt, self._seq, end))
        return str(end.outcome) if held else "fenced"

    async def _verdict(self) -> End | GiveBack:
        answer = asyncio.create_task(self._answer())
        try:
            await asyncio.wait({answer, self._interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            return self._interrupted.result()
        finally:
            # The engine is stopped on the way out of `_answer`, and only then is the job ended.
            answer.cancel()
            await asyncio.wait({answer})

    async def _answer(self) -> End | GiveBack:
        if not self._runner.engine.ready:
            return GiveBack(counts=False)
        try:
            return await self._generate()
        except RequestError as error:
            return _refused(error.problem)
        except EngineRefusal as refusal:
            return _refused(Problem(ErrorCode.INVALID_VALUE, str(refusal)))
        except EngineFault as fault:
            self._runner.engine.suspect(str(fault))
            return GiveBack(counts=True)
        except Exception:
            log.exception("run failed", job=self._job.id, attempt=self._attempt)
            problem = Problem(ErrorCode.INTERNAL_ERROR, "The worker failed on this request.")
            return End(outcome=Outcome.FAILED, problem=problem)

    async def _generate(self) -> End | GiveBack:
        runner, job = self._runner, self._job
        assert runner.engine.info is not None
        limits = runner.engine.info.limits
        runner.renderer.check_length(job.prompt, limits)
        prompt = await runner.renderer.render(job.prompt)
        room = answer_room(job.prompt, len(prompt), job.decoding, limits)
        try:
            async with asyncio.timeout(runner.stall_s):
                generation = await runner.engine.generate(prompt, room, job.decoding)
        except TimeoutError:
            return self._stalled()
        try:
            return await self._relay(generation)
        except TimeoutError:
            if await generation.stop():
                log.warning("request stalled", job=job.id, attempt=self._attempt)
                return GiveBack(counts=True)
            return self._stalled()
        finally:
            await generation.stop()

    async def _relay(self, generation: Generation) -> End:
        """Raises TimeoutError when the engine is silent for `stall_s`."""
        metrics = self._runner.metrics
        gate = TextGate(self._job.decoding.stop)
        completion_tokens = 0
        while True:
            async with asyncio.timeout(self._runner.stall_s):
                progress = await generation.next()
            finish = progress.finish
            if finish is not None and finish.type == "abort":
                message = f"The engine aborted this request: {finish.message}"
                return End(outcome=Outcome.FAILED, problem=Problem(ErrorCode.ENGINE_ERROR, message))
            text = gate.finish(progress.text) if finish else gate.push(progress.text)
            if text or progress.token_ids:
                block = Block(text=text, token_ids=progress.token_ids, prompt_tokens=progress.prompt_tokens)
                if not await self._commit(block):
                    return _CANCELLED
                completion_tokens += len(progress.token_ids)
                metrics.blocks.inc()
                metrics.tokens.inc(len(progress.token_ids))
            if finish is not None:
                metrics.prompt_tokens.inc(progress.prompt_tokens)
                metrics.cached_tokens.inc(progress.cached_tokens)
                return _completed(progress, completion_tokens)

    async def _commit(self, block: Block) -> bool:
        """Meanwhile the engine goes on; what it commits waits in the connection, in order."""
        runner = self._runner
        wanted = await _once_redis_answers(
            lambda: runner.queue.commit(runner.worker_id, self._job.id, self._attempt, self._seq, block)
        )
        self._seq += 1
        return wanted

    def _stalled(self) -> GiveBack:
        self._runner.engine.condemn(f"was silent for {self._runner.stall_s:.0f} s on a request")
        return GiveBack(counts=True)


def _completed(progress: Progress, completion_tokens: int) -> End:
    assert progress.finish is not None
    matched = progress.finish.matched
    return End(
        outcome=Outcome.COMPLETED,
        finish_reason=progress.finish.type,
        matched_stop=None if isinstance(matched, list) else matched,
        prompt_tokens=progress.prompt_tokens,
        completion_tokens=completion_tokens,
        cached_tokens=progress.cached_tokens,
    )


def _refused(problem: Problem) -> End:
    return End(outcome=problem.outcome, problem=problem)


async def _once_redis_answers(call: Callable[[], Awaitable[_Result]]) -> _Result:
    delay_s = _FIRST_RETRY_S
    while True:
        try:
            return await call()
        except RedisError:
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, _LONGEST_RETRY_S)
