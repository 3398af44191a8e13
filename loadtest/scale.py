"""The queue with up to a million jobs waiting and 200 workers: `python -m loadtest.scale`.

Two Redis servers: in one 1,000 jobs wait, in the other more and more. At each number: the CPU time of both
for a job to come, to be handed out and to end, measured in turns, because other work on the machine changes
what an instruction costs; how fast the router's loop hands out jobs; and the memory of a waiting job.
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack
from dataclasses import astuple, dataclass, fields

from dllm_stack import log as logs
from dllm_stack.messages import Tier
from dllm_stack.queue.script import FEW_WORKERS
from dllm_stack.settings import Settings
from loadtest.full_queue import TENANTS, WORKERS, Costs, FullQueue, Rate

FEW = 1_000
SIZES = [10_000, 100_000, 1_000_000]
ROUNDS = 5  # the cheapest counts
RATE_JOBS = 20_000  # that the router's loop is timed with, or half of those that wait
MOST_COST, MOST_BYTES, LEAST_RATE = 1.5, 2048, 5_000


@dataclass(frozen=True)
class Row:
    waiting: int
    few: Costs  # with FEW jobs waiting, at the same time
    costs: Costs
    bytes_per_job: float
    rate: Rate

    @property
    def ratios(self) -> list[float]:
        return [many / few for many, few in zip(astuple(self.costs), astuple(self.few), strict=True)]

    def meets_targets(self) -> bool:
        cheap = max(self.ratios) <= MOST_COST and self.bytes_per_job <= MOST_BYTES
        return cheap and self.rate.one_core >= LEAST_RATE


async def measure(few: FullQueue, many: FullQueue, size: int) -> Row:
    """Args: many: gets as many waiting jobs as `size`, which is more than before."""
    await many.fill(size)
    bytes_per_job = await many.bytes_per_job()
    rounds = [(await few.round(), await many.round()) for _ in range(ROUNDS)]
    cheapest = [Costs(*map(min, *map(astuple, each))) for each in zip(*rounds, strict=True)]
    rate = await many.rate(min(RATE_JOBS, size // 2))
    return Row(size, cheapest[0], cheapest[1], bytes_per_job, rate)


def report(row: Row) -> None:
    costs = " ".join(
        f"{many:6.0f} {ratio:5.2f}" for many, ratio in zip(astuple(row.costs), row.ratios, strict=True)
    )
    rate = row.rate
    print(
        f"{row.waiting:9,} {costs} {row.bytes_per_job:8.0f} {rate.jobs:8.0f} {rate.router:8.0%} "
        f"{rate.redis:7.0%} {rate.one_core:9.0f}",
        flush=True,
    )


async def run(sizes: list[int], program: str | None) -> bool:
    """Whether the targets are met."""
    print(
        f"{WORKERS} workers, {TENANTS} tenants, {len(Tier)} tiers. us: Valkey's CPU time for one job; x: that"
    )
    print(
        f"over the same with {FEW:,} jobs waiting. bytes: of a waiting job besides its body. jobs/s: of one"
    )
    print("router's loop, then what it and Redis took of a core, and jobs/s if they had one core for both.")
    print(f"Targets: x at most {MOST_COST}, bytes at most {MOST_BYTES}, one core {LEAST_RATE} jobs/s.")
    names = " ".join(f"{field.name:>9} x" + " " for field in fields(Costs))
    heading = f"  waiting  {names}   bytes   jobs/s   router   Redis  one core"
    rows = []
    async with AsyncExitStack() as stack:
        few, many = [await stack.enter_async_context(FullQueue.start(program)) for _ in range(2)]
        print(f"{await many.server()}\n")
        at_once = min([await few.at_once() for _ in range(ROUNDS)])
        print(f"us of a job that goes to a slot of {FEW_WORKERS} workers as it is admitted: {at_once:.0f}\n")
        print(heading, flush=True)
        await few.fill(FEW)
        for size in sizes:
            rows.append(await measure(few, many, size))
            report(rows[-1])
    return all(row.meets_targets() for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waiting", type=int, nargs="+", default=SIZES, help="jobs, rising")
    parser.add_argument("--server", help="a program of Redis or Valkey, instead of the embedded Valkey")
    arguments = parser.parse_args()
    logs.configure(Settings(), "router")
    raise SystemExit(0 if asyncio.run(run(arguments.waiting, arguments.server)) else 1)


if __name__ == "__main__":
    main()
