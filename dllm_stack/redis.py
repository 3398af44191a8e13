"""Connections to Redis that always time out."""

from __future__ import annotations

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError, TimeoutError

from dllm_stack.settings import RedisSettings

__all__ = ["RedisError", "connect"]

Client = Redis

# A command that failed in transit is sent once more on a fresh connection: after a Redis restart
# every pooled connection is dead. All our scripts are safe to repeat.
_RETRY = Retry(NoBackoff(), retries=1, supported_errors=(ConnectionError, TimeoutError))


def connect(settings: RedisSettings, *, blocking_s: float = 0.0) -> Client:
    """A client whose every call returns or raises within its timeout.

    Args:
        blocking_s: for a client that makes blocking reads, the longest block; it is added to the
            read timeout.
    """
    return Redis.from_url(
        settings.url,
        socket_timeout=settings.timeout_s + blocking_s,
        socket_connect_timeout=settings.timeout_s,
        socket_keepalive=True,
        health_check_interval=30,
        retry=_RETRY,
        decode_responses=False,
    )
