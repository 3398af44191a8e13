"""A pool with many jobs waiting, in a Redis of its own, and what the queue's scripts cost there."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from prometheus_client import CollectorRegistry

from dllm_stack.local import valkey
from dllm_stack.local.service import free_port
from dllm_stack.messages import ChatPrompt, End, Job, Place, Tier, WorkerCard
from dllm_stack.outcomes import Outcome
from dllm_stack.queue import START, Dispatched, PoolQueue
from dllm_stack.queue.script import FEW_WORKERS
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings, RedisSettings
from loadtest.fleet import Member, redis_up
from router.dispatcher import Dispatcher
from router.metrics import RouterMetrics

POOL = "full"
WORKERS, TENANTS, GATEWAYS = 200, 100, 4
ROUND = 1_000  # jobs that come, run and end in one round
BATCH = 500  # scripts under way at a time
_A_DAY_S = 86_400.0
# Nobody is to die, and nothing to be refused or to expire, while this runs.
_SETTINGS = QueueSettings(
    max_waiting_jobs=10**9, max_waiting_bytes=10**12, heartbeat_s=60, heartbeat_ttl_s=_A_DAY_S
)
_DONE = End(outcome=Outcome.COMPLETED, finish_reason="length", prompt_tokens=100, completion_tokens=128)


class CountingQueue(PoolQueue):
    """Keeps what was dispatched, and says when it is so many jobs."""

    def expect(self, jobs: int) -> None:
        self.rows: list[Dispatched] = []
        self.enough = asyncio.Event()
        self._expected = jobs

    async def dispatch(self) -> list[Dispatched]:
        rows = await super().dispatch()
        self.rows += rows
        if len(self.rows) >= self._expected:
            self.enough.set()
        return rows


@dataclass(frozen=True)
class Costs:
    """Redis' CPU time for one job, in microseconds."""

    admit: float
    dispatch: float
    finish: float


@dataclass(frozen=True)
class Rate:
    """Jobs a second of a router's loop, and which share of a core it and Redis took meanwhile."""

    jobs: float
    router: float
    redis: float

    @property
    def one_core(self) -> float:
        """Jobs a second, if the two had one core between them."""
        return self.jobs / (self.router + self.redis)


class FullQueue:
    def __init__(self, settings: RedisSettings) -> None:
        self._connections = Connections(settings)
        self._queue = CountingQueue(self._connections, POOL, _SETTINGS)
        self._redis = self._connections.commands
        self._jobs = _jobs()
        self._waiting = self._empty_bytes = 0

    @classmethod
    @asynccontextmanager
    async def start(cls, program: str | None) -> AsyncIterator[Self]:
        """Its server is gone afterwards, also when this process is killed.

        Args:
            program: the server's; the embedded Valkey's if there is none.
        """
        port = free_port()
        with tempfile.TemporaryDirectory(prefix="full-queue-") as folder:
            embedded, *arguments = valkey.command(port, Path(folder))
            argv = [program or embedded, *arguments]
            server = Member("redis", argv, Path(folder), probe=None, env={})
            await server.start()
            try:
                settings = RedisSettings(url=f"redis://127.0.0.1:{port}/0", timeout_s=60)
                await redis_up(settings)
                queue = cls(settings)
                await queue._begin()
                yield queue
                await queue._aclose()
            finally:
                await server.kill()

    async def fill(self, size: int) -> None:
        """Admits jobs until so many wait."""
        while self._waiting < size:
            batch = list(itertools.islice(self._jobs, min(BATCH, size - self._waiting)))
            await self._admit(batch)
            self._waiting += len(batch)

    async def server(self) -> str:
        """Which Redis this is, and which allocator it has."""
        server, memory = await self._redis.info("server"), await self._redis.info("memory")
        version = server.get("valkey_version") or server["redis_version"]
        return f"{server.get('server_name', 'redis')} {version}, {memory['mem_allocator']}"

    async def at_once(self) -> float:
        """Redis' CPU time for a job that goes to a slot as it is admitted, in microseconds. To be called
        before `fill`, as nothing else may wait."""
        await self._slots(ROUND // FEW_WORKERS + 1, FEW_WORKERS)
        self._queue.expect(1)  # what was there to have the scripts loaded
        await self._queue.dispatch()
        before = await self._redis_us()
        await asyncio.gather(*(self._queue.admit(job) for job in itertools.islice(self._jobs, ROUND)))
        spent = await self._redis_us() - before
        running = await self._queue.running(2 * ROUND)
        assert len(running) == ROUND + self._waiting
        for job in running:
            assert job.worker is not None
            await self._queue.finish(job.worker, job.id, job.attempt, Place(0, 0), _DONE)
        self._waiting = 0
        await self._slots(0)
        await self._drop_streams()
        return spent / ROUND

    async def bytes_per_job(self) -> float:
        """Memory of a waiting job besides its body."""
        bodies = (await self._queue.depth()).waiting_bytes
        return float(await self._used_bytes() - self._empty_bytes - bodies) / self._waiting

    async def round(self) -> Costs:
        """As many jobs come as go, so that as many wait as before."""
        queue, spent = self._queue, [await self._redis_us()]
        await self._admit(itertools.islice(self._jobs, ROUND))
        spent.append(await self._redis_us())
        await self._slots(ROUND // WORKERS)
        spent.append(await self._redis_us())
        queue.expect(ROUND)
        while not queue.enough.is_set():
            assert await queue.dispatch()
        spent.append(await self._redis_us())
        await self._slots(0)
        spent.append(await self._redis_us())
        await self._finish(queue.rows)
        spent.append(await self._redis_us())
        await self._drop_streams()
        return Costs(*((spent[end] - spent[end - 1]) / ROUND for end in (1, 3, 5)))

    async def rate(self, jobs: int) -> Rate:
        """Of the router's loop, until so many jobs run; they end afterwards."""
        await self._slots(jobs // WORKERS)
        self._queue.expect(jobs)
        dispatcher = Dispatcher(self._queue, RouterMetrics(CollectorRegistry()))
        before = time.perf_counter(), time.process_time(), await self._redis_us()
        loop = asyncio.create_task(dispatcher.run())
        await self._queue.enough.wait()
        now = time.perf_counter(), time.process_time(), await self._redis_us()
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop
        await self._slots(0)
        await self._finish(self._queue.rows)
        self._waiting -= jobs
        await self._drop_streams()
        wall_s, router_s, redis_us = (after - since for after, since in zip(now, before, strict=True))
        return Rate(jobs / wall_s, router_s / wall_s, redis_us / 1e6 / wall_s)

    async def _admit(self, jobs: Iterable[Job]) -> None:
        refusals = await asyncio.gather(*(self._queue.admit(job) for job in jobs))
        assert not any(refusals)

    async def _finish(self, rows: Sequence[Dispatched]) -> None:
        for first in range(0, len(rows), BATCH):
            ends = (
                self._queue.finish(row.worker, row.job_id, row.attempt, Place(0, 0), _DONE)
                for row in rows[first : first + BATCH]
            )
            await asyncio.gather(*ends)

    async def _begin(self) -> None:
        await self._slots(0)
        await self.fill(1)  # so that the scripts are loaded
        self._empty_bytes = await self._used_bytes()

    async def _slots(self, each: int, workers: int = WORKERS) -> None:
        for number in range(workers):
            card = WorkerCard(id=f"worker-{number}", pool=POOL, slots=each, state="ready")
            await self._queue.worker_heartbeat(card, acked=START, held=[])

    async def _drop_streams(self) -> None:
        """What was said to workers and gateways, which are not there to read it."""
        streams = [f"commands:worker-{number}" for number in range(WORKERS)]
        streams += [f"replies:gateway-{number}" for number in range(GATEWAYS)]
        await self._redis.delete(*(f"dllm:{{{POOL}}}:{stream}" for stream in streams))

    async def _redis_us(self) -> float:
        """CPU time of Redis' main thread so far."""
        cpu = await self._redis.info("cpu")
        return 1e6 * float(cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"])

    async def _used_bytes(self) -> int:
        return int((await self._redis.info("memory"))["used_memory"])

    async def _aclose(self) -> None:
        await self._connections.aclose()


def _jobs() -> Iterator[Job]:
    """Of many tenants, in all tiers, some of sessions, with prompts of about 100 tokens."""
    for number in itertools.count():
        text = f"Question {number} of many: " + "what is the answer to this one? " * 12
        yield Job(
            id=f"{number:032x}",
            pool=POOL,
            gateway=f"gateway-{number % GATEWAYS}",
            prompt=ChatPrompt([{"role": "user", "content": text}]),
            tenant=f"tenant-{number % TENANTS}",
            tier=list(Tier)[number // TENANTS % len(Tier)],
            timeout_s=_A_DAY_S,
            session=f"session-{number}" if number % 4 == 0 else None,
        )
