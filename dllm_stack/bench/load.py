"""Sends what is to be sent, when it is due and when there is room."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dllm_stack.bench.asks import Ask
from dllm_stack.bench.client import Client
from dllm_stack.bench.cost import Cost, Watch
from dllm_stack.bench.endpoints import Endpoint, Manner
from dllm_stack.bench.http import connect
from dllm_stack.bench.records import Record


@dataclass
class Run:
    """
    Attributes:
        records: of the requests that were sent, in their order.
        duration_s: until the last answer.
        interrupted: the user broke it off; what was under way then is among the records.
    """

    records: list[Record] = field(default_factory=list)
    duration_s: float = 0.0
    interrupted: bool = False
    cost: Cost = field(default_factory=lambda: Cost(0.0, 0.0, 0.0))


@dataclass(frozen=True)
class Target:
    """Args: timeout_s: for each request, to the end of its answer."""

    url: str
    endpoint: Endpoint
    manner: Manner
    timeout_s: float


async def run(
    target: Target,
    asks: Sequence[Ask],
    concurrency: int | None,
    stop: asyncio.Event,
    done: Callable[[Record], None] = lambda record: None,
) -> Run:
    """
    Args:
        concurrency: at most so many at once; None: without limit. A request that is due when there is no room
            is sent as soon as there is.
        stop: once it is set nothing more is sent, and what is under way is broken off.
        done: called with each record when it is complete.
    """
    found = Run()
    room = asyncio.Semaphore(concurrency) if concurrency else None
    tasks: set[asyncio.Task[None]] = set()
    async with connect(target.timeout_s) as http, Watch() as watch:
        began = time.perf_counter()
        client = Client(http, target.url, target.endpoint, target.manner, began)

        async def one(ask: Ask) -> None:
            record = await client.send(ask)
            found.records.append(record)
            if room:
                room.release()
            done(record)

        async def feed() -> None:
            for ask in asks:
                if ask.due_s is not None:
                    await _until(began + ask.due_s)
                if room:
                    await room.acquire()
                task = asyncio.create_task(one(ask))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await asyncio.gather(*tasks)

        feeding, stopping = asyncio.create_task(feed()), asyncio.create_task(stop.wait())
        await asyncio.wait((feeding, stopping), return_when=asyncio.FIRST_COMPLETED)
        found.interrupted = stop.is_set() and not feeding.done()
        for task in (feeding, stopping, *tasks):
            task.cancel()
        await asyncio.gather(feeding, stopping, *tasks, return_exceptions=True)
        found.duration_s = time.perf_counter() - began
    if not found.interrupted:
        feeding.result()
    found.cost = watch.cost
    found.records.sort(key=lambda record: record.number)
    return found


async def _until(due: float) -> None:
    delay = due - time.perf_counter()
    if delay > 0:
        await asyncio.sleep(delay)
