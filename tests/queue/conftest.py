"""The queue's tests run on each kind of Redis: the fixtures here take the place of those of `tests/`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dllm_stack.settings import RedisSettings
from tests.queue import servers

BACKENDS = ["valkey", "redis7", "cluster"]


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """What the queue runs on: an embedded Valkey, Debian's Redis 7, or a Valkey cluster of three nodes."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def redis_settings(backend: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisSettings]:
    folder = tmp_path_factory.mktemp(backend)
    match backend:
        case "valkey":
            server = servers.standalone(servers.VALKEY, folder)
        case "redis7":
            server = servers.standalone(servers.redis7(), folder)
        case _:
            server = servers.cluster(folder)
    with server as url:
        yield RedisSettings(url=url)
