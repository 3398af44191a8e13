"""What the endpoints of one gateway share, and its life."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from starlette.requests import Request

from dllm_stack import tracing
from dllm_stack.background import forever
from dllm_stack.limits import Limiter
from dllm_stack.outcomes import ErrorCode, Problem
from dllm_stack.queue import Registry
from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from gateway.access import Access
from gateway.catalogue import Catalogue
from gateway.http.room import BODIES, Room
from gateway.ledger import Ledger
from gateway.metrics import Metrics

SHUTTING_DOWN = Problem(
    ErrorCode.SHUTTING_DOWN, "This gateway is shutting down; send the request again.", retry_after_s=1
)


class Gateway:
    """
    Attributes:
        room: for the bodies that are being sent.
        draining: it is about to leave: each answer ends its connection, so that the client's next request
            finds another gateway.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.tracer = tracing.tracer(settings.tracing, "gateway")
        self.connections = Connections(settings.redis, self.metrics.redis)
        self.catalogue = Catalogue(
            Registry(self.connections), settings.queue.heartbeat_s, self.metrics.expect_model
        )
        self.ledger = Ledger(self.connections, settings, self.tracer)
        self.access = Access(settings.access, self.connections, self.ledger.id, self.metrics)
        self.limiter = Limiter(
            self.connections,
            settings.limits,
            heartbeat_s=settings.queue.heartbeat_s,
            lease_s=settings.queue.heartbeat_ttl_s,
        )
        self.room = Room(BODIES * settings.gateway.max_body_bytes)
        self.draining = False
        self._takes_until = math.inf

    def leave(self, within_s: float) -> None:
        """From now on it drains. What comes in the first half of this time is still taken: it is on a
        connection from before, whose client cannot know, or from a proxy that has not heard yet. The other
        half is left to it."""
        self.draining = True
        self._takes_until = time.monotonic() + within_s / 2

    @property
    def refuses(self) -> bool:
        """No request is taken any more; the open ones finish."""
        return time.monotonic() >= self._takes_until

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Starts at once, whether Redis is there or not: requests are refused until it is."""
        steps = [self.catalogue.keep_fresh]
        if self.access.ring is not None:
            steps.append(self.access.ring.keep_fresh)
        tasks = [asyncio.create_task(forever(step)) for step in (*steps, *self.limiter.steps)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            self.ledger.abandon(SHUTTING_DOWN)
            await self.ledger.aclose()
            if self.access.ring is not None:
                await self.access.ring.aclose()
            await self.connections.aclose()
            await asyncio.to_thread(self.tracer.close)


def gateway_of(request: Request) -> Gateway:
    return cast(Gateway, request.app.state.gateway)
