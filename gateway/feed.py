"""What this gateway and the queue of one pool tell each other, kept true against Redis."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

import structlog

from dllm_stack.background import forever
from dllm_stack.log import of_job
from dllm_stack.messages import Detokenize, End, Information, Question, Tokenize, Trace
from dllm_stack.outcomes import SOON_S, ErrorCode, Outcome, Problem, RequestError, unavailable
from dllm_stack.queue import START, PoolQueue, Position
from dllm_stack.queue.verdicts import no_worker
from dllm_stack.redis import BLOCK_S, RedisError
from dllm_stack.settings import Settings
from gateway.ticket import Ticket

LOST_AFTER_S = 1.0  # age from which an open job is looked up in Redis
QUESTION_S = 5.0  # a worker's time for one; then another is asked, once
QUESTIONS_AT_ONCE = 16  # further ones wait here
# Cancels that may wait for a Redis that is away, before those are let go whose job it may not have. If it has
# one, that is cancelled with its first block; kept, they would grow with the requests of an outage.
MOST_UNSURE = 10_000
_SILENT = Problem(ErrorCode.NO_WORKER, "No worker has answered in time.", retry_after_s=SOON_S)
_NOBODY_LEFT = Problem(ErrorCode.WORKER_LOST, "No worker is left to go on with this answer.")

log = structlog.get_logger()


class Feed:
    """The open tickets of one pool.

    One task reads their replies; one sends the heartbeat and re-admits what Redis has lost; one ends
    the tickets of a Redis that stays away; one cancels jobs until Redis has heard of it.
    """

    def __init__(self, queue: PoolQueue, gateway_id: str, settings: Settings) -> None:
        self._queue = queue
        self._gateway_id = gateway_id
        self._settings = settings
        self.several = asyncio.Lock()  # held by a request of several jobs while it admits them
        self._tickets: dict[str, Ticket] = {}
        self._asking = asyncio.Semaphore(QUESTIONS_AT_ONCE)
        self._questions: dict[str, asyncio.Future[Information]] = {}
        self._cancels: asyncio.Queue[str] = asyncio.Queue()
        self._last = START  # id of the last reply read
        self._loop = asyncio.get_running_loop()
        self._read_at = self._loop.time()
        self._tasks = [
            asyncio.create_task(forever(step, pool=queue.pool))
            for step in (self._read, self._beat, self._end_unreachable, self._cancel_next)
        ]

    async def admit(self, ticket: Ticket) -> None:
        """Puts the job into the queue. `release` is due afterwards, whether this raises or not.

        Raises:
            RequestError: the queue is full, has no worker, or cannot be reached.
        """
        self._tickets[ticket.job.id] = ticket
        ticket.sent_at = time.monotonic()
        try:
            problem = await self._queue.admit(ticket.job)
        except RedisError:
            raise RequestError(unavailable("The queue cannot be reached.")) from None
        if problem is not None:
            ticket.settled = True
            raise RequestError(problem)
        ticket.admitted_at = self._loop.time()

    async def position(self, job_id: str) -> Position | None:
        """Where in the queue a job waits; None: it does not, or Redis does not say."""
        try:
            return await self._queue.position(job_id)
        except RedisError:
            return None

    async def ask(
        self, asks: Tokenize | Detokenize, request_id: str = "", trace: Trace | None = None
    ) -> Information:
        """Asks a worker, and if that keeps silent another.

        Raises:
            RequestError: there is none, or none answers; or what it says.
        """
        async with self._asking:
            for _ in range(2):
                question = Question(uuid4().hex, self._gateway_id, asks, request_id, trace)
                answer = self._questions[question.id] = self._loop.create_future()
                try:
                    if not await self._queue.ask(question):
                        raise RequestError(no_worker(self._queue.pool))
                    async with asyncio.timeout(QUESTION_S):
                        told: Information = await answer
                except TimeoutError:
                    continue
                except RedisError:
                    raise RequestError(unavailable("The queue cannot be reached.")) from None
                finally:
                    del self._questions[question.id]
                if told.problem is not None:
                    raise RequestError(told.problem)
                return told
        raise RequestError(_SILENT)

    def release(self, ticket: Ticket) -> None:
        """Forgets a ticket, and cancels its job unless the queue has ended it."""
        self._tickets.pop(ticket.job.id, None)
        if ticket.settled:
            return
        if ticket.admitted_at is not None:
            self._cancels.put_nowait(ticket.job.id)
        elif self._cancels.qsize() < MOST_UNSURE:
            # Redis may come upon the admission, given up here, after the cancel: two connections have no
            # order. The second cancel is sent when the first is answered, and so comes after both.
            self._cancels.put_nowait(ticket.job.id)
            self._cancels.put_nowait(ticket.job.id)

    async def aclose(self) -> None:
        """Leaves the pool; jobs still open there are cancelled."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self._queue.gateway_leave(self._gateway_id)
        except RedisError:
            log.warning("left a pool unannounced: redis is unreachable", pool=self._queue.pool)

    async def _read(self) -> None:
        try:
            last, replies = await self._queue.replies(self._gateway_id, self._last)
        except RedisError:
            self._last = START
            raise
        self._last = last
        self._read_at, now = self._loop.time(), time.monotonic()
        for reply in replies:
            ticket = self._tickets.get(reply.job_id)
            if reply.information is not None:
                question = self._questions.get(reply.job_id)
                if question is not None and not question.done():
                    question.set_result(reply.information)
            elif ticket is not None:
                ticket.accept(reply, now)
            elif reply.end is None:
                self._cancels.put_nowait(reply.job_id)  # it runs on for nobody

    async def _beat(self) -> None:
        await self._queue.gateway_heartbeat(self._gateway_id, self._last)
        await self._readmit_lost()
        await asyncio.sleep(self._settings.queue.heartbeat_s)

    async def _readmit_lost(self) -> None:
        if not (ids := [ticket.job.id for ticket in self._open_since(self._loop.time() - LOST_AFTER_S)]):
            return
        for job_id in await self._queue.lost(self._gateway_id, self._last, ids):
            ticket = self._tickets.get(job_id)
            if ticket is None or ticket.end is not None:
                continue
            # Redis may have begun attempts that no reply has told of; none of them may pass for a new one.
            ticket.attempt += self._settings.queue.max_attempts
            try:
                refusal = await self._queue.admit(
                    ticket.job, attempts=ticket.attempt, committed=ticket.committed
                )
            finally:
                if ticket.end is not None:
                    self._cancels.put_nowait(job_id)  # the cancel at its end may have come too early
            log.warning("redis lost a job", **of_job(ticket.job), readmitted=refusal is None)
            if refusal is None:
                ticket.refused_at = None
            else:
                self._refused_again(ticket, refusal)

    def _refused_again(self, ticket: Ticket, refusal: Problem) -> None:
        """The next beat asks again, for as long as the queue itself would wait for a worker."""
        now, queue = self._loop.time(), self._settings.queue
        ticket.refused_at = ticket.refused_at or now
        if now - ticket.refused_at > queue.heartbeat_ttl_s + queue.worker_grace_s:
            problem = _NOBODY_LEFT if ticket.committed.token_ids else refusal
            ticket.close(End(outcome=problem.outcome, problem=problem))

    async def _end_unreachable(self) -> None:
        period_s, began = self._settings.queue.heartbeat_s, self._loop.time()
        await asyncio.sleep(period_s)
        if (late_s := self._loop.time() - began - period_s) > period_s:
            self._read_at += late_s  # this process stood still, not Redis: it has yet to read
        # A single read may take its timeout; before that there is no outage to speak of.
        grace_s = max(self._settings.gateway.reply_grace_s, self._settings.redis.timeout_s)
        limit = self._loop.time() - BLOCK_S - grace_s
        if self._read_at < limit:
            problem = unavailable("The queue became unreachable while the request ran.")
            for ticket in self._open_since(limit):
                ticket.close(End(outcome=Outcome.FAILED, problem=problem))

    async def _cancel_next(self) -> None:
        job_id = await self._cancels.get()
        try:
            await self._queue.cancel(job_id)
        except RedisError:
            self._cancels.put_nowait(job_id)
            raise

    def _open_since(self, limit: float) -> list[Ticket]:
        return [
            ticket
            for ticket in self._tickets.values()
            if ticket.end is None and ticket.admitted_at is not None and ticket.admitted_at < limit
        ]
