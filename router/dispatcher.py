"""One pool's jobs to its free slots, and the leases of its dead back into the queue.

Any number of routers may do this for the same pool: each step is one atomic script.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn

import structlog

from dllm_stack.background import forever
from dllm_stack.queue import PoolQueue
from router.metrics import RouterMetrics

log = structlog.get_logger()

_FATES = ("requeued", "failed", "cancelled")


class Dispatcher:
    def __init__(self, queue: PoolQueue, metrics: RouterMetrics) -> None:
        self._queue = queue
        self._metrics = metrics

    async def run(self) -> NoReturn:
        # Prometheus takes no note of the first count of a series that begins with it.
        for fate in _FATES:
            self._metrics.reclaimed.labels(self._queue.pool, fate)
        self._metrics.orphans.labels(self._queue.pool)
        async with asyncio.TaskGroup() as group:
            group.create_task(forever(self._dispatch, pool=self._queue.pool))
            group.create_task(forever(self._reclaim, pool=self._queue.pool))
        raise AssertionError("both loops run for ever")

    async def _dispatch(self) -> None:
        for dispatched in await self._queue.dispatch():
            self._metrics.dispatched(self._queue.pool, dispatched)
        await self._queue.wait()

    async def _reclaim(self) -> None:
        pool = self._queue.pool
        reclaimed = await self._queue.reclaim()
        for worker, fates in reclaimed.fates.items():
            log.warning("worker is dead", worker=worker, pool=pool, jobs=fates)
            for fate in fates:
                self._metrics.reclaimed.labels(pool, fate).inc()
        if reclaimed.orphans:
            log.warning("gateway is dead", pool=pool, jobs_cancelled=reclaimed.orphans)
            self._metrics.orphans.labels(pool).inc(reclaimed.orphans)
        self._metrics.dispatched_at_once(pool, reclaimed.at_once)
        self._metrics.add_tally(pool, reclaimed.tally)
        if reclaimed.more:
            return
        self._metrics.set_depth(pool, await self._queue.depth())
        await asyncio.sleep(self._queue.reclaim_every_s)
