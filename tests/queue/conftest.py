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
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Cluster]:
    with servers.Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def redis_settings(
    backend: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RedisSettings]:
    if backend == "cluster":
        yield RedisSettings(url=request.getfixturevalue("cluster").url, timeout_s=60)
    else:
        binary = servers.VALKEY if backend == "valkey" else servers.redis7()
        with servers.standalone(binary, tmp_path_factory.mktemp(backend)) as url:
            yield RedisSettings(url=url, timeout_s=60)
