"""The workers' pods in Kubernetes: one that is to go gets no more jobs, and an idle one goes first.

Any number of routers may do this for the same pods: each step says what shall be, not what to change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, NoReturn

import structlog

from dllm_stack.background import forever
from dllm_stack.queue import PoolQueue
from dllm_stack.redis import RedisError
from router.cluster import Change, Cluster, ClusterError, Expired, Pod

log = structlog.get_logger()

_LOOK_EVERY_S = 1.0  # at the workers and their load
_COST_EVERY_S = 10.0  # at most so often is one pod's cost written: each time is a write to the cluster's etcd
_WATCH_AGAIN_S = 0.2
_RETRY_S = 1.0  # after a failure; doubled each time
_RETRY_CAP_S = 15.0


class PodWatcher:
    """Three loops: one follows the pods, one compares them with the workers, one writes their deletion costs.

    While the API is away everything else goes on, and what was seen last is not acted upon.
    """

    def __init__(self, cluster: Cluster, queues: Callable[[], Iterable[PoolQueue]]) -> None:
        self._cluster = cluster
        self._queues = queues
        self._pods: dict[str, Pod] = {}
        self._load: dict[str, int] = {}
        self._cost_due: dict[str, float] = {}  # pod -> loop time from which its cost may be written again
        self._one_leaves = asyncio.Event()
        self._follows = True
        self._may_write = True

    async def run(self) -> NoReturn:
        async with asyncio.TaskGroup() as group:
            group.create_task(forever(self._follow))
            group.create_task(forever(self._compare))
            group.create_task(forever(self._write_costs))
        raise AssertionError("all loops run for ever")

    async def _follow(self) -> NoReturn:
        pause_s = _RETRY_S
        while True:
            try:
                listed = await self._cluster.pods()
                self._pods = {}
                for pod in listed.items:
                    self._see(pod)
                version = listed.metadata.resource_version
                while True:
                    async for change in self._cluster.changes(version):
                        self._apply(change)
                        version = change.version
                        pause_s = _RETRY_S
                    await asyncio.sleep(_WATCH_AGAIN_S)
            except Expired:
                log.debug("the watch expired; listing the pods again")
            except ClusterError as error:
                if self._follows:
                    log.warning("kubernetes is unreachable; jobs are routed on", error=str(error))
                self._follows = False
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _RETRY_CAP_S)

    def _apply(self, change: Change) -> None:
        if not self._follows:
            log.info("kubernetes answers again")
        self._follows = True
        if change.pod is None:
            return
        if change.kind == "deleted":
            self._pods.pop(change.pod.name, None)
        else:
            self._see(change.pod)

    def _see(self, pod: Pod) -> None:
        self._pods[pod.name] = pod
        if pod.leaving:
            self._one_leaves.set()

    async def _compare(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_EVERY_S):
                await self._one_leaves.wait()
        self._one_leaves.clear()
        load, drains = await self._look()
        if load is not None:
            self._load = load
        await asyncio.gather(*drains)

    async def _look(self) -> tuple[dict[str, int] | None, list[Coroutine[Any, Any, None]]]:
        """The load of every pod, unless a pool's is not known, and what there is to drain."""
        pods, complete = self._pods, True
        load = dict.fromkeys(pods, 0)
        drains = []
        for queue in tuple(self._queues()):  # more may come meanwhile
            try:
                workers = await queue.workers()
            except RedisError:  # of which the pool's dispatcher tells
                complete = False
                continue
            for worker in workers:
                pod = pods.get(worker.card.pod or "")
                if pod is None:
                    continue
                load[pod.name] += max(worker.load, worker.running)
                if pod.leaving and not worker.draining:
                    drains.append(self._drain(queue, worker.card.id, pod.name))
        return load if complete else None, drains

    async def _drain(self, queue: PoolQueue, worker: str, pod: str) -> None:
        # A StatefulSet gives the name to its next pod, and to drain that one's worker could not be undone.
        # While the old pod is there the next one is not, nor was its worker: asking once more is enough.
        with suppress(ClusterError, RedisError):  # the next look comes soon
            now = await self._cluster.pod(pod)
            if now is not None and now.leaving:
                await queue.drain_worker(worker)
                log.info(
                    "pod is leaving: its worker gets no more jobs", pod=pod, worker=worker, pool=queue.pool
                )

    async def _write_costs(self) -> None:
        await asyncio.sleep(_LOOK_EVERY_S)
        time = asyncio.get_running_loop().time
        self._cost_due = {name: due for name, due in self._cost_due.items() if name in self._pods}
        for name, load in self._load.items():
            pod, cost = self._pods.get(name), deletion_cost(load)
            if pod is None or pod.leaving or pod.deletion_cost == cost or not self._follows:
                continue
            if time() < self._cost_due.get(name, 0):
                continue
            self._cost_due[name] = time() + _COST_EVERY_S
            try:
                await self._cluster.set_deletion_cost(name, cost)
                self._may_write = True
            except ClusterError as error:
                if self._may_write:
                    log.warning("pods keep their deletion cost", error=str(error))
                self._may_write = False


def deletion_cost(load: int) -> str:
    """0 for an idle pod, one more for each doubling of its load in tokens: a scale-down takes the lowest
    first, and a load that changes a little is not worth a write."""
    return str(load.bit_length())
