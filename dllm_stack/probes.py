"""A service's own small HTTP server: /healthz, /readyz, /metrics.

It runs in the service's event loop, so /healthz answers exactly while that loop turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

from aiohttp import web
from prometheus_client import CollectorRegistry

from dllm_stack.exposition import CONTENT_TYPE_LATEST, expose, expose_text

Readiness = Callable[[], tuple[bool, Mapping[str, object]]]


class Probes:
    """Serves from `async with` until its end.

    Args:
        port: 0 takes any free one; `port` then tells which.
        ready: whether the service may be given work, and what to say about it as JSON.
        more_metrics: further ones in Prometheus' text, in which all are then exposed.
    """

    def __init__(
        self,
        host: str,
        port: int,
        metrics: CollectorRegistry,
        *,
        ready: Readiness,
        more_metrics: Callable[[], Awaitable[bytes]] | None = None,
    ) -> None:
        self.port = port
        self._host = host
        self._metrics = metrics
        self._ready = ready
        self._more_metrics = more_metrics
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._expose),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self.port).start()
        except OSError:
            await self._runner.cleanup()
            raise
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readyz(self, request: web.Request) -> web.Response:
        ready, detail = self._ready()
        return web.json_response({"ready": ready, **detail}, status=200 if ready else 503)

    async def _expose(self, request: web.Request) -> web.Response:
        if self._more_metrics is not None:
            body = await asyncio.to_thread(expose_text, self._metrics) + await self._more_metrics()
            return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
        body, content_type = await expose(self._metrics, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})
