"""The router's process: a dispatcher for every pool there is, and its health."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack

import structlog
from prometheus_client import CollectorRegistry

from dllm_stack import log as logs
from dllm_stack.probes import Probes
from dllm_stack.queue import PoolQueue, Registry
from dllm_stack.redis import Connections, RedisError
from dllm_stack.settings import Settings
from router.dispatcher import Dispatcher
from router.metrics import RouterMetrics

log = structlog.get_logger()

_NEW_POOLS_EVERY_S = 0.5


class Router:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connections = Connections(settings.redis)
        self._registry = Registry(self._connections)
        self._prometheus = CollectorRegistry()
        self._metrics = RouterMetrics(self._prometheus)
        self._pools: set[str] = set()
        self._sees_redis = False

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop`.

        Raises:
            PortTaken
        """
        router = self._settings.router
        probes = Probes(router.host, router.port, self._prometheus, ready=self._readiness)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._connections.aclose)
            try:
                await stack.enter_async_context(probes)
            except OSError as error:
                raise PortTaken(f"router.port: {error.strerror or error}") from error
            try:
                async with asyncio.TaskGroup() as group:
                    discovery = group.create_task(self._discover(group))
                    await stop.wait()
                    discovery.cancel()
                    raise _Stop
            except* _Stop:
                log.info("stopped")

    async def _discover(self, group: asyncio.TaskGroup) -> None:
        while True:
            try:
                for pool in await self._registry.pools():
                    if pool not in self._pools:
                        self._pools.add(pool)
                        log.info("serving pool", pool=pool)
                        queue = PoolQueue(
                            self._connections, pool, self._settings.queue, self._settings.router
                        )
                        group.create_task(Dispatcher(queue, self._metrics).run())
                self._sees_redis = True
            except RedisError:
                self._sees_redis = False
            await asyncio.sleep(_NEW_POOLS_EVERY_S)

    def _readiness(self) -> tuple[bool, dict[str, object]]:
        return self._sees_redis, {"redis": self._sees_redis, "pools": sorted(self._pools)}


class PortTaken(Exception):
    """The router cannot listen; the message says where and why."""


class _Stop(Exception):
    """Leaves the task group, which ends the dispatchers."""


def run(settings: Settings) -> None:
    """Runs a router until SIGTERM or SIGINT. A router holds nothing, so it stops at once.

    Raises:
        SystemExit: 2 when its port is taken. Why is then on stderr.
    """
    logs.configure(settings, "router")
    try:
        asyncio.run(_until_signalled(Router(settings)))
    except PortTaken as taken:
        print(taken, file=sys.stderr)
        raise SystemExit(2) from None


async def _until_signalled(router: Router) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await router.run(stop)
