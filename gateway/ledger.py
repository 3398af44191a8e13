"""The open requests of this process."""

from __future__ import annotations

from typing import Protocol
from uuid import uuid4

from dllm_stack.messages import End
from dllm_stack.outcomes import Outcome, Problem
from dllm_stack.queue import PoolQueue
from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from dllm_stack.tracing import OFF, Tracer
from gateway.feed import Feed


class OpenRequest(Protocol):
    def close(self, end: End) -> None: ...


class Ledger:
    """Every request from its first byte to its last, and the feed of each pool they are for.

    Attributes:
        id: this process, as the queue knows it; 32 hex digits, new with each start.
        open: the requests without an answer yet.
    """

    def __init__(self, connections: Connections, settings: Settings, tracer: Tracer = OFF) -> None:
        self.id = uuid4().hex
        self.open: set[OpenRequest] = set()
        self._connections = connections
        self._settings = settings
        self._tracer = tracer
        self._feeds: dict[str, Feed] = {}

    def feed(self, pool: str) -> Feed:
        if pool not in self._feeds:
            settings = self._settings.queue, self._settings.router
            queue = PoolQueue(self._connections, pool, *settings, self._tracer)
            self._feeds[pool] = Feed(queue, self.id, self._settings)
        return self._feeds[pool]

    def abandon(self, problem: Problem) -> None:
        """Ends every open request with this problem."""
        for request in tuple(self.open):
            request.close(End(outcome=Outcome.FAILED, problem=problem))

    async def aclose(self) -> None:
        for feed in self._feeds.values():
            await feed.aclose()
