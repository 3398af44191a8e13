"""Connections to Redis whose every call returns or raises in time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from redis.exceptions import ConnectionError, NoScriptError, RedisClusterException, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dllm_stack.redis_clients import ClusterClient, client, close
from dllm_stack.redis_line import Line
from dllm_stack.redis_metrics import RedisMetrics
from dllm_stack.redis_url import parse, shown
from dllm_stack.settings import RedisSettings

__all__ = ["BLOCK_S", "Connections", "RedisError", "shown"]

BLOCK_S = 1.0  # longest block of one blocking read
_MOST_COMMANDS = 32  # at a time, each on a connection of its own; further ones wait, within their time


class Script(NamedTuple):
    name: str  # as the metrics call it
    text: str
    sha: str  # SHA-1 of the text


class Connections:
    """Two clients of one Redis: `commands`, and `blocking` for reads that wait up to BLOCK_S. The URL alone
    says whether it is one server, one behind Sentinels, or a cluster.

    Calls go between `async with connections.limit()`, which ends them in time. The timeout that redis-py
    has of its own is not used: it sends through `asyncio.wait_for`, which in Python 3.11 can swallow the
    cancellation of the task that waits, and then a service would not stop. Nor is its blocking pool, which
    gives a free connection to whoever comes first: those who wait may starve. There is one blocking read a
    pool of workers, so these need no bound.

    Args:
        metrics: what measures the calls of `commands`, if anything does.
    """

    def __init__(self, settings: RedisSettings, metrics: RedisMetrics | None = None) -> None:
        self._timeout_s = settings.timeout_s
        self._metrics = metrics
        self._turn = asyncio.Semaphore(_MOST_COMMANDS)
        where = parse(settings.url)
        self.commands: Any = client(where, settings.timeout_s)
        self.blocking: Any = client(where, settings.timeout_s)
        of_cluster = isinstance(self.commands, ClusterClient)
        self._line = None if of_cluster else Line(self.commands.connection_pool.make_connection)

    async def run(self, script: Script, key: str, args: Sequence[str | bytes | int | float]) -> Any:
        """Runs a script, together with all others that are under way.

        Raises:
            RedisError: Redis does not answer in time; the script may have run all the same.
        """
        if self._line is None:
            async with self.limit(script.name):
                return await self._run(self.commands.execute_command, script, key, args)
        async with self._limit(script.name, self._timeout_s):
            return await self._run(self._line.send, script, key, args)

    async def _run(self, send: Callable[..., Awaitable[Any]], script: Script, key: str, args: Any) -> Any:
        try:
            return await send("EVALSHA", script.sha, 1, key, *args)
        except NoScriptError:
            return await send("EVAL", script.text, 1, key, *args)

    @asynccontextmanager
    async def limit(self, command: str = "other", *, block_s: float = 0.0) -> AsyncIterator[None]:
        """Raises `RedisError` when what it encloses takes longer than the timeout plus `block_s`, which is
        0 for calls of `commands`.

        Args:
            command: as the metrics call it; one of few.
        """
        if block_s:
            async with self._limit(command, self._timeout_s + block_s, measured=False):
                yield
        else:
            async with self._limit(command, self._timeout_s), self._turn:
                yield

    @asynccontextmanager
    async def _limit(self, command: str, limit_s: float, *, measured: bool = True) -> AsyncIterator[None]:
        began = time.monotonic()
        try:
            async with asyncio.timeout(limit_s):
                yield
            if measured and self._metrics is not None:
                self._metrics.answered(command, time.monotonic() - began)
        except RedisError:
            self._count_failure(command)
            raise
        except TimeoutError:
            self._count_failure(command)
            if self._line is not None:
                self._line.mistrust(limit_s / 2)
            for redis in (self.commands, self.blocking):
                if isinstance(redis, ClusterClient):
                    redis.mistrust()
            raise RedisTimeoutError(f"Redis did not answer within {limit_s:g} s") from None
        except RedisClusterException as error:  # which redis-py does not count among its RedisErrors
            self._count_failure(command)
            raise ConnectionError(str(error)) from error

    def _count_failure(self, command: str) -> None:
        if self._metrics is not None:
            self._metrics.failed(command)

    async def ping(self) -> None:
        """Raises `RedisError` when Redis does not answer in time."""
        async with self.limit("ping"):
            await self.commands.ping()

    async def aclose(self) -> None:
        if self._line is not None:
            self._line.close()
        await close(self.commands)
        await close(self.blocking)
