"""A master is killed behind its Sentinels, with writes that it acknowledged and no replica has.

Gateway feed, router, and the claims of two workers are real; what a worker answers is made up.
"""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from dllm_stack.messages import Claim, End, Job, ModelCard, TextPrompt
from dllm_stack.outcomes import ErrorCode, Outcome, RequestError
from dllm_stack.queue import PoolQueue, Registry
from dllm_stack.redis import Connections, RedisError
from dllm_stack.settings import GatewaySettings, QueueSettings, RedisSettings, Settings
from gateway.feed import Feed
from gateway.ticket import Ticket
from router.dispatcher import Dispatcher
from router.metrics import RouterMetrics
from tests.queue.servers import SERVICE, VALKEY, Watched, redis7
from tests.waiting import eventually
from worker.claims import Claims
from worker.metrics import WorkerMetrics
from worker.outbox import Outbox
from worker.run import Run

POOL = "tiny"
CARD = ModelCard(name=POOL, context_length=512, block_size=2, algorithm="LowConfidence", created=0)
REQUESTS, A_SECOND = 120, 40
TIMEOUT_S = 5.0  # a master that is killed says so at once
TOKENS = list(range(12))  # every answer, two tokens a block
DONE = End(outcome=Outcome.COMPLETED, finish_reason="stop", completion_tokens=len(TOKENS))


class FakeRun:
    """Commits an answer block by block, from where the last attempt came to, as `Run` does."""

    def __init__(self, queue: PoolQueue, worker: str, claim: Claim) -> None:
        self._queue = queue
        self._lease = worker, claim.job.id, claim.attempt
        self._outbox = Outbox(claim.committed)
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    async def execute(self) -> str:
        sent = begin = self._outbox.end.tokens
        for place in range(begin, len(TOKENS), 2):
            await asyncio.sleep(0.02)
            self._outbox.add(TOKENS[place : place + 2], "ab")
            while sent < self._outbox.end.tokens:
                if self._cancelled or not self._outbox.reaches(sent):
                    return await self._finish(End(outcome=Outcome.CANCELLED), begin)
                after, block = self._outbox.behind(sent)
                try:
                    wanted, sent = await self._queue.commit(*self._lease, after, block)
                except RedisError:
                    await asyncio.sleep(0.05)
                    continue
                self._cancelled |= not wanted
        return await self._finish(DONE, sent)

    async def _finish(self, end: End, sent: int) -> str:
        after, _ = self._outbox.behind(sent)
        while True:
            try:
                return str(await self._queue.finish(*self._lease, after, end))
            except RedisError:
                await asyncio.sleep(0.05)


@pytest.fixture(scope="module", params=["valkey", "redis7"])
def watched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    binary = VALKEY if request.param == "valkey" else redis7()
    with Watched(binary, tmp_path_factory.mktemp(f"watched-{request.param}")) as watched:
        yield watched


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connections]:
    connections = Connections(RedisSettings(url=url, timeout_s=TIMEOUT_S))
    yield connections
    await connections.aclose()


@asynccontextmanager
async def running(*loops: Any) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(loop) for loop in loops]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def worker(connections: Connections, settings: Settings) -> Claims:
    queue, id = PoolQueue(connections, POOL, settings.queue), uuid.uuid4().hex
    return Claims(
        id,
        queue,
        Registry(connections),
        WorkerMetrics(CollectorRegistry(), POOL),
        heartbeat_s=settings.queue.heartbeat_s,
        state=lambda: ("ready", 4, CARD),
        start=lambda claim: cast(Run, FakeRun(queue, id, claim)),
        ask=lambda question: None,
    )


async def answer(feed: Feed, gateway: str, admitted: list[Ticket]) -> Ticket:
    """What a client sees that asks again when it is told that the queue is away."""
    while True:
        wake = asyncio.Event()
        ticket = Ticket(
            Job(id=uuid.uuid4().hex, pool=POOL, gateway=gateway, prompt=TextPrompt("x")), wake.set
        )
        try:
            await feed.admit(ticket)
            admitted.append(ticket)
            while ticket.end is None:
                await wake.wait()
                wake.clear()
            return ticket
        except RequestError as error:
            if error.problem.code is not ErrorCode.QUEUE_UNAVAILABLE:
                raise
            await asyncio.sleep(0.1)
        finally:
            feed.release(ticket)


def lose_writes(watched: Watched) -> None:
    """From now on the master acknowledges what its replica does not get."""
    watched.replica.process.send_signal(signal.SIGSTOP)
    watched.master.client.client_kill_filter(_type="replica")


async def until_master(connections: Connections) -> float:
    """Seconds until somebody takes writes again."""

    async def served() -> bool:
        try:
            async with connections.limit():
                return bool(await connections.commands.set("dllm:here", "1"))
        except RedisError:
            return False

    return await eventually(served)


async def test_a_silent_sentinel_holds_nobody_up(watched: Watched) -> None:
    silent = watched.sentinels[0].process
    silent.send_signal(signal.SIGSTOP)
    async with connected(watched.url) as connections:
        await connections.ping()
    silent.send_signal(signal.SIGCONT)


async def test_a_service_unknown_to_the_sentinels_is_an_error(watched: Watched) -> None:
    async with connected(watched.url.replace(f"/{SERVICE}", "/other")) as connections:
        with pytest.raises(RedisError, match="other"):
            await connections.ping()


async def test_every_job_ends_once_through_a_failover(
    watched: Watched, record: Callable[[str], None]
) -> None:
    settings = Settings(
        redis=RedisSettings(url=watched.url, timeout_s=TIMEOUT_S),
        queue=QueueSettings(heartbeat_s=0.1, heartbeat_ttl_s=5, max_attempts=20),
        gateway=GatewaySettings(reply_grace_s=30),
    )
    async with AsyncExitStack() as stack:
        connections = await stack.enter_async_context(connected(watched.url))
        queue = PoolQueue(connections, POOL, settings.queue)
        workers = [worker(connections, settings) for _ in range(2)]
        loops = [loop for claims in workers for loop in (claims.beat(), claims.obey())]
        router = Dispatcher(queue, RouterMetrics(CollectorRegistry()))
        await stack.enter_async_context(running(router.run(), *loops))

        async def workers_there() -> bool:
            return (await queue.depth()).workers == len(workers)

        await eventually(workers_there)
        gateway = uuid.uuid4().hex
        feed = Feed(queue, gateway, settings)
        stack.push_async_callback(feed.aclose)

        asked: list[asyncio.Task[Ticket]] = []
        admitted: list[Ticket] = []
        unseen = 0  # of the replica, how many came before

        async def one_is_lost() -> bool:
            return any(ticket.end is None for ticket in admitted[unseen:])

        for number in range(REQUESTS):
            if number == REQUESTS // 4:
                lose_writes(watched)
                unseen = len(admitted)
            if number == REQUESTS // 3:
                await eventually(one_is_lost)
                watched.master.kill()
                watched.replica.process.send_signal(signal.SIGCONT)
                killed = asyncio.create_task(until_master(connections))
            asked.append(asyncio.create_task(answer(feed, gateway, admitted)))
            await asyncio.sleep(1 / A_SECOND)
        tickets = await asyncio.gather(*asked)

        assert [ticket.end for ticket in tickets] == [DONE] * REQUESTS
        assert [ticket.committed.token_ids for ticket in tickets] == [TOKENS] * REQUESTS
        lost = sum(ticket.attempt > settings.queue.max_attempts for ticket in tickets)
        assert lost > 0
        record(
            f"Sentinel failover: {await killed:.1f} s without a master; {REQUESTS} jobs ended once and "
            f"whole, {lost} of them lost by Redis and admitted again"
        )
        assert watched.replica.client.info("replication")["role"] == "master"

        async def nothing_left() -> bool:
            depth = await queue.depth()
            return depth.waiting == depth.running == 0

        await eventually(nothing_left)
        assert watched.replica.client.keys("*job:*") == []
