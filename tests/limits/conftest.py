"""The limits run on each kind of Redis that the queue runs on, with connections to an empty database."""

from tests.queue.conftest import backend, cluster, redis_settings

__all__ = ["backend", "cluster", "redis_settings"]
