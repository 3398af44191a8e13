"""The life of an engine: small programs where only processes matter, and a whole worker with real SGLang."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from prometheus_client import CollectorRegistry

from dllm_stack.local.service import free_port
from dllm_stack.messages import TokenPrompt
from dllm_stack.outcomes import Outcome
from dllm_stack.settings import RedisSettings, WorkerSettings
from tests.engine.running import START_S
from tests.waiting import eventually
from tests.worker.conftest import MODEL, Caller, engine_children
from worker.engine.command import EngineCommand
from worker.engine.process import EngineProcess
from worker.engine.supervisor import Engine, EngineGivenUp
from worker.metrics import WorkerMetrics

IDS = list(range(300, 340))
LONG = 1900


def program(source: str) -> EngineCommand:
    """A Python program in the place of SGLang."""
    return EngineCommand([sys.executable, "-c", source], {}, {}, 32, "8")


async def start(source: str, run_dir: Path) -> EngineProcess:
    return await EngineProcess.start(program(source), "http://127.0.0.1:9", run_dir)


# A launcher with one child, both of which ignore SIGTERM; it tells when both do.
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    print("up", child, flush=True)
time.sleep(600)
"""


async def stubborn(run_dir: Path) -> tuple[EngineProcess, psutil.Process]:
    """The process, and its child."""
    process = await start(STUBBORN, run_dir)

    async def is_up() -> bool:
        return len(process.tail().split()) == 2

    await eventually(is_up)
    return process, psutil.Process(int(process.tail().split()[1]))


def runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # it has ended between the two questions
        return False


async def gone(*processes: psutil.Process) -> bool:
    return not any(map(runs, processes))


async def test_the_end_of_the_launcher_is_told_with_its_status(tmp_path: Path) -> None:
    process = await start("print('out of memory'); raise SystemExit(3)", tmp_path)
    assert await process.ended() == "ended with status 3"
    await process.stop()
    assert process.tail() == "out of memory"


async def test_stopping_leaves_none_of_its_processes(tmp_path: Path) -> None:
    process, child = await stubborn(tmp_path)
    await process.stop()
    assert await gone(child)
    assert await process.ended() == "ended with status -9"


# Shares memory as SGLang does, under a name that it tells, and as others may.
SHARING = """
import mmap, multiprocessing, os, time
lock = multiprocessing.get_context("spawn").Lock()
names = [f"/dev/shm/{name}_{os.getpid()}" for name in ("sglang_loads", "checkpoint")]
for name in names:
    with open(name, "w+b") as file:
        file.truncate(4096)
        globals()[name] = mmap.mmap(file.fileno(), 4096)
print(f"/dev/shm/sem.{lock._semlock.name[1:]}", *names, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("ended", [False, True])
async def test_nor_of_the_memory_they_shared(tmp_path: Path, ended: bool) -> None:
    process = await start(SHARING, tmp_path)

    async def is_up() -> bool:
        return "checkpoint" in process.tail()

    await eventually(is_up)
    *shared, foreign = map(Path, process.tail().split())
    members = [psutil.Process(process.pid), *psutil.Process(process.pid).children()]
    assert len(members) == 3, "the program, the one that ties it to us, and Python's resource tracker"
    if ended:
        process.watch_children()
        members[0].kill()
        await process.ended()
    await process.stop()
    assert await gone(*members)
    assert [path for path in shared if path.exists()] == []
    foreign.unlink()


async def test_a_full_disk_does_not_make_it_wait(tmp_path: Path) -> None:
    (tmp_path / "engine.log").symlink_to("/dev/full")
    process = await start("print('x' * 1_000_000)", tmp_path)
    assert await process.ended() == "ended with status 0"
    await process.stop()


async def test_a_lost_child_is_the_end_once_it_is_watched(tmp_path: Path) -> None:
    process, child = await stubborn(tmp_path)
    process.watch_children()
    ended = asyncio.create_task(process.ended())
    child.kill()
    assert "lost its process" in await ended
    await process.stop()


async def test_the_log_is_bounded(tmp_path: Path) -> None:
    process = await start("for n in range(40 * 1024): print(f'{n:05}' + 1018 * '.')", tmp_path)
    assert await process.ended() == "ended with status 0"
    await process.stop()
    old, new = ((tmp_path / name).stat().st_size for name in ("engine.log.old", "engine.log"))
    assert max(old, new) < 17 << 20
    assert old + new < 40 << 20
    assert process.tail(1).startswith("40959")


async def test_what_the_engine_leaves_behind_is_in_the_run_folder(tmp_path: Path) -> None:
    source = "import tempfile; print(tempfile.mkstemp()[1])"
    process = await start(source, tmp_path)
    await process.ended()
    await process.stop()
    assert Path(process.tail()).parent == tmp_path


def engine_of(source: str, run_dir: Path, **settings: Any) -> Engine:
    return Engine(
        lambda: start(source, run_dir),
        lambda info: None,
        WorkerSettings(**settings),
        WorkerMetrics(CollectorRegistry(), "tiny"),
        lambda: None,
    )


async def test_an_engine_that_never_gets_ready_is_given_up_with_its_output(tmp_path: Path) -> None:
    engine = engine_of("print('no kernel for this GPU'); raise SystemExit(7)", tmp_path)
    with pytest.raises(EngineGivenUp, match=r"(?s)status 7 before it was ready.*no kernel for this GPU"):
        await engine.run()
    assert (tmp_path / "engine.log").read_text().count("no kernel") == 3


async def test_an_engine_that_loads_for_too_long_is_given_up(tmp_path: Path) -> None:
    engine = engine_of("import time; time.sleep(600)", tmp_path, start_timeout_s=0.3)
    with pytest.raises(EngineGivenUp, match=r"was not ready after 0\.3 s"):
        await engine.run()


class WorkerProcess:
    """`dllm-stack worker` with an engine of its own."""

    def __init__(self, redis: RedisSettings, **settings: str) -> None:
        self.port = free_port()
        self._temporary = tempfile.TemporaryDirectory(prefix="dllm-test-")
        self._env = os.environ | {
            "TMPDIR": self._temporary.name,
            "DLLM_REDIS__URL": redis.url,
            "DLLM_QUEUE__HEARTBEAT_S": "0.2",
            "DLLM_WORKER__PORT": str(self.port),
            "DLLM_WORKER__MODEL": MODEL,
            **{f"DLLM_WORKER__{name.upper()}": value for name, value in settings.items()},
        }
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dllm_stack.cli", "worker"),
            env=self._env,
            stderr=asyncio.subprocess.PIPE,
        )

    @property
    def process(self) -> psutil.Process:
        assert self._process is not None
        return psutil.Process(self._process.pid)

    def engine(self) -> dict[str, psutil.Process]:
        """Its processes by name."""
        (launcher,) = self.process.children()
        scheduler, detokenizer = engine_children(launcher)
        return {"launcher": launcher, "scheduler": scheduler, "detokenizer": detokenizer}

    async def has_engine(self) -> bool:
        try:
            launchers = self.process.children()
            return bool(launchers) and len(engine_children(launchers[0])) == 2
        except psutil.NoSuchProcess:  # one that has just ended
            return False

    async def ready(self) -> bool:
        assert self._process is not None
        assert self._process.returncode is None, await self.output()
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{self.port}/readyz") as response,
            ):
                return response.status == 200
        except aiohttp.ClientConnectionError:
            return False

    async def ended(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    async def output(self) -> str:
        """All it wrote, once it has ended."""
        assert self._process is not None
        assert self._process.stderr is not None
        return (await self._process.stderr.read()).decode()

    def left_behind(self) -> list[str]:
        """In the temporary folder; what torch compiles is kept there on purpose."""
        return [name for name in os.listdir(self._temporary.name) if not name.startswith("torchinductor")]

    async def clean_up(self) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self.ended()
        self._temporary.cleanup()


def shared_memory(engine: dict[str, psutil.Process]) -> set[Path]:
    paths = (Path(region.path) for process in engine.values() for region in process.memory_maps())
    return {path for path in paths if path.parent == Path("/dev/shm")}


@pytest.fixture
async def worker(redis_settings: RedisSettings) -> AsyncIterator[WorkerProcess]:
    worker = WorkerProcess(redis_settings, stall_s="3", drain_s="20")
    await worker.start()
    yield worker
    await worker.clean_up()


@pytest.mark.timeout(3 * START_S)
async def test_a_worker_outlives_its_engines(worker: WorkerProcess, caller: Caller) -> None:
    """One worker through it all, because each time an engine has to load again."""
    await eventually(worker.ready, within_s=START_S)

    # Without its detokenizer the engine would answer nothing. The answers go on with the next engine.
    jobs = [await caller.send(TokenPrompt(IDS), max_tokens=700, ignore_eos=True) for _ in range(2)]
    for job in jobs:
        await caller.first_block(job)
    first = worker.engine()
    shared = shared_memory(first)
    assert shared
    first["detokenizer"].kill()
    await eventually(caller.all_free)
    assert (await caller.queue.depth()).waiting == 2
    await eventually(lambda: gone(*first.values()))
    await caller.dispatch_all(jobs)
    one, other = [await caller.answer(job) for job in jobs]
    assert one.end.outcome is Outcome.COMPLETED
    assert one.end.completion_tokens == len(one.token_ids) == 700
    assert (one.token_ids, one.text) == (other.token_ids, other.text)

    # One that hangs is killed, all of it, after stall_s.
    second = worker.engine()
    shared |= shared_memory(second)
    whole = await caller.send(TokenPrompt(IDS), max_tokens=LONG, ignore_eos=True)
    await caller.first_block(whole)
    second["scheduler"].suspend()
    await eventually(lambda: gone(*second.values()))
    await eventually(caller.all_free)
    assert (await caller.queue.depth()).waiting == 1

    # SIGTERM while the next one loads: nothing is left but the job, which waits for another worker.
    await eventually(worker.has_engine, within_s=START_S)
    third = worker.engine()
    shared |= shared_memory(third)
    worker.process.terminate()
    assert await worker.ended() == 0
    assert [path for path in shared if path.exists()] == []
    assert await gone(*third.values())
    assert worker.left_behind() == []
    depth = await caller.queue.depth()
    assert (depth.waiting, depth.running, depth.workers) == (1, 0, 0)


@pytest.mark.timeout(START_S + 100)
async def test_no_engine_outlives_a_worker_that_is_killed(worker: WorkerProcess) -> None:
    """While SGLang loads, its children are not tied to it yet."""
    await eventually(worker.has_engine, within_s=START_S)
    engine = worker.engine()
    worker.process.kill()
    await eventually(lambda: gone(*engine.values()))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"profile": "h200-8x"}, "h200-8x"),
        ({"model": "no-such-model"}, "no-such-model"),
        ({"engine_url": "localhost:30000"}, "worker.engine_url"),
    ],
)
async def test_impossible_settings_end_the_worker_before_anything_starts(
    redis_settings: RedisSettings, settings: dict[str, str], says: str
) -> None:
    worker = WorkerProcess(redis_settings, **settings)
    await worker.start()
    assert await worker.ended() == 2
    output = await worker.output()
    assert says in output
    assert "Traceback" not in output
    await worker.clean_up()


async def test_a_worker_whose_engine_does_not_start_ends_and_leaves(
    redis_settings: RedisSettings, caller: Caller
) -> None:
    worker = WorkerProcess(redis_settings, start_timeout_s="0.1")
    await worker.start()
    assert await worker.ended() == 1
    output = await worker.output()
    assert "was not ready after 0.1 s" in output
    assert "Traceback" not in output
    assert (await caller.queue.depth()).workers == 0
    await worker.clean_up()
