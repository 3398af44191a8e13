"""One attempt of one job on the engine, from its claim to the word that ends it in the queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TypeVar

import structlog

from dllm_stack.messages import Claim, End, Place, TokenLogprob
from dllm_stack.outcomes import ErrorCode, Outcome, Problem, RequestError
from dllm_stack.queue import PoolQueue
from dllm_stack.redis import RedisError
from dllm_stack.tracing import OFF, Tracer
from worker.autoregression import decoding_of, goes_on, told
from worker.decisions import ONE_WAY, Decisions
from worker.engine.client import EngineFault, EngineRefusal, Finish, Generation, Progress
from worker.engine.supervisor import Engine
from worker.metrics import WorkerMetrics
from worker.outbox import Outbox
from worker.pace import Pace
from worker.prompt import Renderer, answer_room, whole_blocks
from worker.refusal import refused_by_engine
from worker.transcript import Diverged, Piece, Transcript

log = structlog.get_logger()

_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.05, 1.0
# Of an answer that is not streamed nobody sees the blocks; a worker that dies loses what it kept back.
_KEPT_BACK_S = 0.1

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class GiveBack:
    """The job returns to the queue without an answer."""

    counts: bool  # as one of its tries


_NOWHERE = Place(0, 0)
_CANCELLED = End(outcome=Outcome.CANCELLED)
_DRAWN = Problem(
    ErrorCode.WORKER_LOST,
    "The worker of this answer was lost, and one that was drawn with penalties or in a form cannot go on "
    "elsewhere; send the request again.",
)
_DIVERGED = Problem(
    ErrorCode.WORKER_LOST, "The engine did not go on with the answer that was begun; send the request again."
)


@dataclass(frozen=True)
class Runner:
    """What every run of a worker needs.

    Attributes:
        block_size: see `ModelCard`.
        blocks_follow_prompt: see `BlockDiffusion`.
        decisions: how the engine can decode.
    """

    worker_id: str
    queue: PoolQueue
    engine: Engine
    renderer: Renderer
    metrics: WorkerMetrics
    block_size: int
    stall_s: float
    blocks_follow_prompt: bool = False
    decisions: Decisions = ONE_WAY
    tracer: Tracer = OFF

    def run(self, claim: Claim) -> Run:
        return Run(self, claim)


class Run:
    """Holds the job's slot until `execute` returns: the engine has then stopped, and the queue knows."""

    def __init__(self, runner: Runner, claim: Claim) -> None:
        self._runner = runner
        self._job = claim.job
        self._attempt = claim.attempt
        self._committed = claim.committed
        self._outbox = Outbox(claim.committed)
        self._sent = self._outbox.end.tokens  # as far as Redis has said
        self._sent_at = -inf
        self._keeps = False  # the last block has been kept back
        self._pace = Pace(runner.metrics, runner.tracer, claim)
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
        how = await self._end(verdict)
        self._pace.end(how)
        return how

    async def _end(self, verdict: End | GiveBack) -> str:
        if isinstance(verdict, GiveBack):
            runner, counts = self._runner, verdict.counts
            return await _once_redis_answers(
                lambda: runner.queue.release(runner.worker_id, self._job.id, self._attempt, counts=counts)
            )
        return str(verdict.outcome) if await self._finish(verdict) else "fenced"

    async def _verdict(self) -> End | GiveBack:
        answer = asyncio.create_task(self._answer())
        try:
            await asyncio.wait({answer, self._interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            return self._interrupted.result()
        finally:
            # The engine is stopped on the way out of `_answer`, and only then is the job ended.
            if not answer.done():
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
            return _refused(refused_by_engine(str(refusal), self._job.decoding))
        except EngineFault as fault:
            self._runner.engine.suspect(str(fault))
            return GiveBack(counts=True)
        except Exception:
            log.exception("run failed")
            problem = Problem(ErrorCode.INTERNAL_ERROR, "The worker failed on this request.")
            return End(outcome=Outcome.FAILED, problem=problem)

    async def _generate(self) -> End | GiveBack:
        runner, job = self._runner, self._job
        assert runner.engine.info is not None
        engine = runner.engine.info
        limits = engine.limits
        options = runner.decisions.options(job.decoding, engine.algorithm)
        runner.renderer.check_length(job.prompt, limits)
        prompt = await runner.renderer.render(job.prompt, limits)
        room = answer_room(job.prompt, len(prompt), job.decoding, limits)
        committed = self._committed.token_ids
        first = len(prompt) if runner.blocks_follow_prompt else 0
        kept = whole_blocks(len(prompt), len(committed), room, limits, runner.block_size, first=first)
        decoding = job.decoding
        if engine.algorithm is None:
            if decoding.token_by_token.looks_back:
                kept = 0  # the engine would take what is committed for a part of the prompt
            decoding = decoding_of(job, kept)
            if kept < len(committed) and not goes_on(decoding, engine):
                return _refused(_DRAWN)
        transcript = Transcript(runner.renderer.decode, prompt, job.decoding.stop, self._committed, kept)
        self._outbox.prompt_tokens = len(prompt)
        trace = self._pace.asks(len(prompt))
        try:
            async with asyncio.timeout(runner.stall_s):
                generation = await runner.engine.generate(
                    prompt + committed[:kept], room - kept, decoding, options, trace
                )
        except TimeoutError:
            return self._stalled()
        try:
            return await self._relay(generation, transcript)
        except TimeoutError:
            if await generation.stop():
                log.warning("request stalled")
                return GiveBack(counts=True)
            return self._stalled()
        finally:
            await generation.stop()

    async def _relay(self, generation: Generation, transcript: Transcript) -> End:
        """Raises TimeoutError when the engine is silent for `stall_s`."""
        metrics, outbox = self._runner.metrics, self._outbox
        while True:
            progress = await generation.next(self._runner.stall_s)
            if progress.finish is not None and progress.finish.type == "abort":
                message = f"The engine aborted this request: {progress.finish.message}"
                return End(outcome=Outcome.FAILED, problem=Problem(ErrorCode.ENGINE_ERROR, message))
            for block in progress.blocks():
                waits = self._may_wait()
                try:
                    piece = transcript.read(block.token_ids, block.finish, block.work, later=waits)
                except Diverged as diverged:
                    log.error("answer diverged", how=str(diverged))
                    return _refused(_DIVERGED)
                logprobs = self._logprobs(block, piece) if block.logprobs else []
                took = self._pace.add(piece) if piece.token_ids else None
                outbox.add(piece.token_ids, piece.text, piece.work, logprobs, took, joined=self._keeps)
                if piece.ending is not None:
                    # Of an answer that was begun elsewhere, the engine took a part for its prompt.
                    cached = min(progress.cached_tokens, outbox.prompt_tokens)
                    metrics.prompt_tokens.inc(outbox.prompt_tokens)
                    metrics.cached_tokens.inc(cached)
                    return self._completed(piece.ending, cached)
                # Text without tokens goes with the next block: in Redis a place is a number of tokens.
                if piece.token_ids:
                    self._keeps = waits
                    if not waits and not await self._commit():
                        return _CANCELLED

    def _logprobs(self, block: Progress, piece: Piece) -> list[TokenLogprob]:
        new = block.logprobs[piece.known :][: len(piece.token_ids)]
        return told(new, self._runner.renderer.token_bytes, piece.ending and piece.ending.matched)

    def _may_wait(self) -> bool:
        """Whether a block may go to Redis together with the next ones."""
        return not self._job.streamed and time.monotonic() - self._sent_at < _KEPT_BACK_S

    async def _commit(self) -> bool:
        """Sends what the engine has added to the answer.

        Meanwhile the engine goes on; what it generates waits in the connection, in order.

        Returns:
            False: the job is not this worker's any more, or not wanted, or Redis has lost more of its answer
            than this attempt has made.
        """
        queue, worker, job, attempt = self._runner.queue, self._runner.worker_id, self._job, self._attempt
        self._sent_at = time.monotonic()
        while self._sent < self._outbox.end.tokens:
            if not self._outbox.reaches(self._sent):
                return False
            after, block = self._outbox.behind(self._sent)
            call = partial(queue.commit, worker, job.id, attempt, after, block)
            wanted, self._sent = await _once_redis_answers(call)
            if not wanted:
                return False
        return True

    async def _finish(self, end: End) -> bool:
        """Ends the job; if it is completed, with the last block of its answer.

        Returns:
            False: it was not this worker's any more.
        """
        queue, worker, job, attempt = self._runner.queue, self._runner.worker_id, self._job, self._attempt
        after, block = _NOWHERE, None
        if end.outcome is Outcome.COMPLETED:
            after, last = self._outbox.behind(self._sent)
            block = last if last.token_ids or last.text else None
        call = partial(queue.finish, worker, job.id, attempt, after, end, block)
        return await _once_redis_answers(call)

    def _completed(self, ending: Finish, cached_tokens: int) -> End:
        return End(
            outcome=Outcome.COMPLETED,
            finish_reason=ending.type,
            matched_stop=None if isinstance(ending.matched, list) else ending.matched,
            prompt_tokens=self._outbox.prompt_tokens,
            completion_tokens=self._outbox.end.tokens,
            cached_tokens=cached_tokens,
        )

    def _stalled(self) -> GiveBack:
        self._runner.engine.condemn(f"was silent for {self._runner.stall_s:.0f} s on a request")
        return GiveBack(counts=True)


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
