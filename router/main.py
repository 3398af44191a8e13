"""The router's process: a dispatcher for every pool there is, and its health."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, NoReturn

import structlog
import uvloop
from prometheus_client import CollectorRegistry

from dllm_stack import log as logs
from dllm_stack import tracing
from dllm_stack.probes import Probes
from dllm_stack.queue import PoolQueue, Registry
from dllm_stack.redis import Connections, RedisError
from dllm_stack.settings import Settings
from dllm_stack.tracing import TracingError
from router.dispatcher import Dispatcher
from router.metrics import RouterMetrics

log = structlog.get_logger()

_NEW_POOLS_EVERY_S = 0.5


class Router:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._prometheus = CollectorRegistry()
        self._metrics = RouterMetrics(self._prometheus)
        self._tracer = tracing.tracer(settings.tracing, "router")
        self._connections = Connections(settings.redis, self._metrics.redis)
        self._registry = Registry(self._connections)
        self._queues: dict[str, PoolQueue] = {}
        self._sees_redis = False

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop`.

        Raises:
            CannotStart
        """
        router = self._settings.router
        probes = Probes(router.host, router.port, self._prometheus, ready=self._readiness)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, self._tracer.close)
            stack.push_async_callback(self._connections.aclose)
            try:
                await stack.enter_async_context(probes)
            except OSError as error:
                raise CannotStart(f"router.port: {error.strerror or error}") from error
            watch_pods = await self._pod_watch(stack)
            try:
                async with asyncio.TaskGroup() as group:
                    if watch_pods is not None:
                        group.create_task(watch_pods)
                    discovery = group.create_task(self._discover(group))
                    await stop.wait()
                    discovery.cancel()
                    raise _Stop
            except* _Stop:
                log.info("stopped")

    async def _pod_watch(self, stack: AsyncExitStack) -> Coroutine[Any, Any, NoReturn] | None:
        """What watches the workers' pods, where that is asked for."""
        settings = self._settings.router
        if settings.worker_pods is None:
            return None
        from router.cluster import Cluster, NoCluster  # 45 MB with its library
        from router.pods import PodWatcher

        try:
            cluster = await Cluster.connect(settings.worker_pods, settings.worker_pods_namespace)
        except NoCluster as error:
            raise CannotStart(f"router.worker_pods: {error}") from error
        stack.push_async_callback(cluster.aclose)
        return PodWatcher(cluster, self._queues.values).run()

    async def _discover(self, group: asyncio.TaskGroup) -> None:
        while True:
            try:
                if self._settings.queue.cold_start_s:
                    await self._registry.keep()
                for pool in await self._registry.pools():
                    if pool not in self._queues:
                        log.info("serving pool", pool=pool)
                        settings = self._settings.queue, self._settings.router
                        queue = PoolQueue(self._connections, pool, *settings, self._tracer)
                        self._queues[pool] = queue
                        group.create_task(Dispatcher(queue, self._metrics).run())
                self._sees_redis = True
            except RedisError:
                self._sees_redis = False
            await asyncio.sleep(_NEW_POOLS_EVERY_S)

    def _readiness(self) -> tuple[bool, dict[str, object]]:
        return self._sees_redis, {"redis": self._sees_redis, "pools": sorted(self._queues)}


class CannotStart(Exception):
    """Its port is taken, or there is no cluster to watch; the message names the setting."""


class _Stop(Exception):
    """Leaves the task group, which ends the dispatchers."""


def run(settings: Settings) -> None:
    """Runs a router until SIGTERM or SIGINT. A router holds nothing, so it stops at once.

    Raises:
        SystemExit: 2 when it cannot start. Why is then on stderr.
    """
    logs.configure(settings, "router")
    try:
        uvloop.run(_until_signalled(Router(settings)))
    except (CannotStart, TracingError) as reason:
        print(reason, file=sys.stderr)
        raise SystemExit(2) from None


async def _until_signalled(router: Router) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await router.run(stop)
