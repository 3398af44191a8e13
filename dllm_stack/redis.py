"""Connections to Redis whose every call returns or raises in time."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
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
    """What a service has to do with one Redis. The URL alone says whether it is one server, one behind
    Sentinels, or a cluster.

    Scripts share one line. What waits for a key has a line of its own for it, as it holds up what comes
    behind. In a cluster, which is redis-py's to find its way in, and for all other commands there are its
    clients: `commands`, and `blocking` for reads that wait up to BLOCK_S.

    Their calls go between `async with connections.limit()`, which ends them in time. The timeout that
    redis-py has of its own is not used: it sends through `asyncio.wait_for`, which in Python 3.11 can swallow
    the cancellation of the task that waits, and then a service would not stop. Nor is its blocking pool, that
    gives a free connection to whoever comes first: those who wait may starve. There is one blocking read a
    pool of workers, so these need no bound.

    Of one server, or one behind Sentinels, scripts and reads that wait go over lines of their own instead.

    Args:
        metrics: what measures all calls but those that wait for a key, if anything does.
    """

    def __init__(self, settings: RedisSettings, metrics: RedisMetrics | None = None) -> None:
        self._timeout_s = settings.timeout_s
        self._metrics = metrics
        self._turn = asyncio.Semaphore(_MOST_COMMANDS)
        where = parse(settings.url)
        self.commands: Any = client(where, settings.timeout_s)
        self.blocking: Any = client(where, settings.timeout_s)
        self._is_cluster = isinstance(self.commands, ClusterClient)
        self._scripts = self._line()
        self._reading: defaultdict[str, Line] = defaultdict(self._line)  # by the key that is waited for

    def _line(self) -> Line:
        return Line(lambda: self.commands.connection_pool.make_connection(), self._timeout_s)

    async def run(self, script: Script, key: str, args: Sequence[str | bytes | int | float]) -> Any:
        """Runs a script, together with all others that are under way.

        Raises:
            RedisError: Redis does not answer in time; the script may have run all the same.
        """
        if self._is_cluster:
            async with self.limit(script.name):
                return await self._run(self.commands.execute_command, script, key, args)
        async with self._limit(script.name, self._timeout_s, self._scripts):
            return await self._run(self._scripts.send, script, key, args)

    async def _run(self, send: Callable[..., Awaitable[Any]], script: Script, key: str, args: Any) -> Any:
        # redis-py's own way would load a script into all nodes of a cluster, and fail when one is away.
        try:
            return await send("EVALSHA", script.sha, 1, key, *args)
        except NoScriptError:
            return await send("EVAL", script.text, 1, key, *args)

    async def entries(self, stream: str, after: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """What of a stream is behind an entry's id, waiting up to BLOCK_S for the first: ids and fields.

        Raises:
            RedisError: Redis does not answer in time.
        """
        block_ms = int(BLOCK_S * 1000)
        async with self._waiting("read", stream) as line:
            if line is None:
                found: Any = await self.blocking.xread({stream: after}, block=block_ms)
                return found[0][1] if found else []
            found = await line.send("XREAD", "BLOCK", block_ms, "STREAMS", stream, after)
        entries = found[0][1] if found else []
        return [(entry, dict(zip(fields[::2], fields[1::2], strict=True))) for entry, fields in entries]

    async def pop(self, key: str) -> None:
        """Takes something off a list, waiting up to BLOCK_S for it.

        Raises:
            RedisError: Redis does not answer in time.
        """
        async with self._waiting("wait", key) as line:
            if line is None:
                await self.blocking.blpop([key], timeout=BLOCK_S)
            else:
                await line.send("BLPOP", key, BLOCK_S)

    @asynccontextmanager
    async def _waiting(self, command: str, key: str) -> AsyncIterator[Line | None]:
        """Limits what waits up to BLOCK_S for a key, on a connection of its own; None: in a cluster."""
        line = None if self._is_cluster else self._reading[key]
        async with self._limit(command, self._timeout_s + BLOCK_S, line, measured=False):
            yield line

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
    async def _limit(
        self, command: str, limit_s: float, line: Line | None = None, *, measured: bool = True
    ) -> AsyncIterator[None]:
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
            if line is not None:
                line.mistrust(limit_s / 2)
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
        for line in (self._scripts, *self._reading.values()):
            line.close()
        await close(self.commands)
        await close(self.blocking)
