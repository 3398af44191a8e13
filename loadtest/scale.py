"""The queue with up to a million jobs waiting and 200 workers: `python -m loadtest.scale`.

A Valkey of its own, the queue's real scripts. At each number of waiting jobs: the CPU time of Valkey for
one job to come, to be handed out and to end; how many jobs a second the router's loop hands out; and the
memory of a job besides its body. CPU time, and the best of several rounds, because other work on the machine
is not what is asked about.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from dllm_stack import log as logs
from dllm_stack.local import valkey
from dllm_stack.local.service import free_port
from dllm_stack.messages import ChatPrompt, End, Job, Place, Tier, WorkerCard, encode
from dllm_stack.outcomes import Outcome
from dllm_stack.queue import START, Dispatched, PoolQueue
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings, RedisSettings, Settings
from loadtest.fleet import Member, redis_up
from router.dispatcher import Dispatcher
from router.metrics import RouterMetrics

POOL = "scale"
SIZES = [1_000, 10_000, 100_000, 1_000_000]
WORKERS, TENANTS, GATEWAYS = 200, 100, 4
BATCH = 500  # commands in one pipeline
MEASURED = 1_000  # jobs that come, run and end in one round of a measurement
ROUNDS = 5
RATE_JOBS = 20_000  # jobs that the router's loop is timed with, or half of those that wait
MOST_COST, MOST_BYTES, LEAST_RATE = 1.5, 2048, 5_000
# Nobody is to die, and nothing to be refused, while this runs.
QUEUE = QueueSettings(max_waiting_jobs=10**9, max_waiting_bytes=10**12, heartbeat_s=60, heartbeat_ttl_s=3600)
DONE = End(outcome=Outcome.COMPLETED, finish_reason="length", prompt_tokens=100, completion_tokens=128)
TARGETS = (
    f"at most {MOST_COST} times the cost, {MOST_BYTES} bytes, and at least {LEAST_RATE} jobs/s of a core"
)


@dataclass(frozen=True)
class Row:
    """With so many jobs waiting."""

    waiting: int
    costs: dict[str, float]  # Valkey's CPU time for one job, microseconds
    bytes_per_job: float
    rate: float  # jobs a second
    router_cpu: float  # share of a core at this rate
    valkey_cpu: float

    @property
    def one_core_rate(self) -> float:
        """If the router and Valkey had one core between them."""
        return self.rate / (self.router_cpu + self.valkey_cpu)


class Pipeline(Connections):
    """Keeps commands back until `flush`."""

    def __init__(self, settings: RedisSettings) -> None:
        super().__init__(settings)
        self.commands = self.commands.pipeline(transaction=False)

    async def flush(self) -> list[Any]:
        answers: list[Any] = await self.commands.execute()
        return answers


class CountingQueue(PoolQueue):
    """Says when so many jobs have been dispatched."""

    def expect(self, jobs: int) -> None:
        self.rows: list[Dispatched] = []
        self.enough = asyncio.Event()
        self._jobs = jobs

    async def dispatch(self) -> list[Dispatched]:
        rows = await super().dispatch()
        self.rows += rows
        if len(self.rows) >= self._jobs:
            self.enough.set()
        return rows


def jobs() -> Iterator[Job]:
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
            timeout_s=600.0,
            session=f"session-{number}" if number % 4 == 0 else None,
        )


class Bench:
    def __init__(self, settings: RedisSettings) -> None:
        self._connections = Connections(settings)
        self._pipeline = Pipeline(settings)
        self._queue = CountingQueue(self._connections, POOL, QUEUE)
        self._batched = PoolQueue(self._pipeline, POOL, QUEUE)
        self._redis = self._connections.commands
        self._jobs = jobs()
        self._waiting = self._bodies = 0

    async def run(self, size: int) -> Row:
        """Only ever with more jobs than before."""
        await self._slots(0)
        if not self._waiting:
            await self._fill(1)  # the scripts are loaded, the connections open
            self._empty_bytes = await self._used_memory()
        await self._fill(size)
        waited_bytes = await self._used_memory() - self._empty_bytes
        costs = await self._costs()
        rate, router_cpu, valkey_cpu = await self._rate(min(RATE_JOBS, size // 2) // WORKERS)
        return Row(size, costs, (waited_bytes - self._bodies) / size, rate, router_cpu, valkey_cpu)

    async def aclose(self) -> None:
        await self._connections.aclose()
        await self._pipeline.aclose()

    async def _fill(self, size: int) -> None:
        while self._waiting < size:
            batch = list(itertools.islice(self._jobs, min(BATCH, size - self._waiting)))
            for job in batch:
                await self._batched.admit(job)
                self._bodies += len(encode(job))
            answers = await self._pipeline.flush()
            assert answers == [[b"ok"]] * len(batch), answers[0]
            self._waiting += len(batch)

    async def _slots(self, each: int) -> None:
        for number in range(WORKERS):
            name = f"worker-{number}"
            card = WorkerCard(id=name, pool=POOL, slots=each, state="ready")
            await self._queue.worker_heartbeat(card, acked=START, held=[])

    async def _finish(self, rows: Sequence[Dispatched]) -> None:
        for begin in range(0, len(rows), BATCH):
            for row in rows[begin : begin + BATCH]:
                await self._batched.finish(row.worker, row.job_id, row.attempt, Place(0, 0), DONE)
            await self._pipeline.flush()
        self._waiting -= len(rows)
        await self._forget_streams()

    async def _costs(self) -> dict[str, float]:
        """As many come as go, so the number of waiting jobs stays what it is."""
        rounds = [await self._round() for _ in range(ROUNDS)]
        return {name: min(each[name] for each in rounds) for name in rounds[0]}

    async def _round(self) -> dict[str, float]:
        costs: dict[str, float] = {}
        queue = self._queue
        newcomers = list(itertools.islice(self._jobs, MEASURED))
        async with self._cost(costs, "admit"):
            for job in newcomers:
                await queue.admit(job)
        await self._slots(MEASURED // WORKERS)
        queue.expect(MEASURED)
        async with self._cost(costs, "dispatch"):
            while not queue.enough.is_set():
                assert await queue.dispatch(), "slots are missing"
        await self._slots(0)
        async with self._cost(costs, "finish"):
            for row in queue.rows:
                await queue.finish(row.worker, row.job_id, row.attempt, Place(0, 0), DONE)
        await self._forget_streams()
        return costs

    @asynccontextmanager
    async def _cost(self, costs: dict[str, float], name: str) -> AsyncIterator[None]:
        before = await self._valkey_us()
        yield
        costs[name] = (await self._valkey_us() - before) / MEASURED

    async def _valkey_us(self) -> float:
        """CPU time of Valkey's main thread."""
        cpu = await self._redis.info("cpu")
        return 1e6 * float(cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"])

    async def _forget_streams(self) -> None:
        """Drops what was said to workers and gateways, of whom there are none."""
        for kind in ("commands", "replies"):
            async for key in self._redis.scan_iter(f"*:{kind}:*", count=1000):
                await self._redis.delete(key)

    async def _rate(self, slots: int) -> tuple[float, float, float]:
        """Jobs a second of the router's loop until all slots are taken, and which share of a core it and
        Valkey took."""
        await self._slots(slots)
        self._queue.expect(WORKERS * slots)
        dispatcher = Dispatcher(self._queue, RouterMetrics(CollectorRegistry()))
        before = time.perf_counter(), time.process_time(), await self._valkey_us()
        loop = asyncio.create_task(dispatcher.run())
        await self._queue.enough.wait()
        now = time.perf_counter(), time.process_time(), await self._valkey_us()
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop
        rows = self._queue.rows
        await self._slots(0)
        await self._finish(rows)
        wall_s, router_s, valkey_us = (after - since for after, since in zip(now, before, strict=True))
        return len(rows) / wall_s, router_s / wall_s, valkey_us / 1e6 / wall_s

    async def _used_memory(self) -> int:
        return int((await self._redis.info("memory"))["used_memory"])


@asynccontextmanager
async def _valkey() -> AsyncIterator[RedisSettings]:
    """Of its own, and gone with this process."""
    port, hurry = free_port(), asyncio.Event()
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        server = Member("valkey", valkey.command(port, Path(folder)), Path(folder), probe=None, env={})
        await server.start()
        try:
            settings = RedisSettings(url=f"redis://127.0.0.1:{port}/0", timeout_s=60)
            await redis_up(settings)
            yield settings
        finally:
            await server.stop(hurry)


def report(row: Row) -> None:
    costs = " ".join(f"{row.costs[name]:9.0f}" for name in row.costs)
    print(
        f"{row.waiting:9,} {costs} {row.bytes_per_job:9.0f} {row.rate:9.0f} {row.router_cpu:8.0%} "
        f"{row.valkey_cpu:7.0%} {row.one_core_rate:9.0f}",
        flush=True,
    )


async def run(sizes: list[int]) -> bool:
    """Whether the targets are met."""
    print(f"{WORKERS} workers, {TENANTS} tenants, {len(Tier)} tiers. Valkey's CPU time for one job, us;")
    print(
        "bytes of a waiting job besides its body; jobs/s of one router's loop, what that took of a core, and"
    )
    print("what it is for each core that both take together.\n")
    print(
        "  waiting     admit  dispatch    finish     bytes    jobs/s   router  Valkey  per core", flush=True
    )
    rows = []
    async with _valkey() as settings:
        bench = Bench(settings)
        for size in sizes:
            rows.append(await bench.run(size))
            report(rows[-1])
        await bench.aclose()
    first, last = rows[0], rows[-1]
    ratios = {name: last.costs[name] / first.costs[name] for name in first.costs}
    shown = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    print(f"\nCost with {last.waiting:,} waiting over cost with {first.waiting:,}: {shown}")
    print(f"Targets: {TARGETS}.")
    return (
        max(ratios.values()) <= MOST_COST
        and max(row.bytes_per_job for row in rows[1:] or rows) <= MOST_BYTES
        and min(row.one_core_rate for row in rows) >= LEAST_RATE
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waiting", type=int, nargs="+", default=SIZES, help="jobs, rising")
    arguments = parser.parse_args()
    logs.configure(Settings(), "router")
    raise SystemExit(0 if asyncio.run(run(arguments.waiting)) else 1)


if __name__ == "__main__":
    main()
