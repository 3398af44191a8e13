"""Connections to Redis whose every call returns or raises in time."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError, TimeoutError

from dllm_stack.settings import RedisSettings

__all__ = ["Connections", "RedisError"]

BLOCK_S = 1.0  # longest block of one blocking read


class Connections:
    """Two clients of one Redis: `commands`, and `blocking` for reads that wait up to BLOCK_S."""

    def __init__(self, settings: RedisSettings) -> None:
        self.commands = _client(settings, settings.timeout_s)
        self.blocking = _client(settings, settings.timeout_s + BLOCK_S)

    async def ping(self) -> None:
        """Raises `RedisError` when Redis does not answer in time."""
        await cast(Awaitable[bool], self.commands.ping())

    async def aclose(self) -> None:
        await self.commands.aclose()
        await self.blocking.aclose()


def _client(settings: RedisSettings, timeout_s: float) -> Redis:
    return Redis.from_url(
        settings.url,
        socket_timeout=timeout_s,
        socket_connect_timeout=settings.timeout_s,
        socket_keepalive=True,
        protocol=2,
        # After a restart of Redis every pooled connection is dead, so a command that failed in transit
        # is sent once more. That is why every script of the queue is safe to repeat.
        retry=Retry(NoBackoff(), retries=1, supported_errors=(ConnectionError, TimeoutError)),
    )
