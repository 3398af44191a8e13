"""The life of a worker and its engine, real SGLang."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import psutil
import pytest

from dllm_stack.local.service import free_port
from dllm_stack.messages import TokenPrompt
from dllm_stack.outcomes import Outcome
from dllm_stack.settings import RedisSettings
from tests.engine.running import START_S
from tests.waiting import eventually
from tests.worker.conftest import MODEL, Caller, engine_children
from tests.worker.test_engine_process import gone

IDS = list(range(300, 340))
TOKENS, LONG = 700, 1900


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
    worker = WorkerProcess(redis_settings, stall_s="10", drain_s="20")
    await worker.start()
    yield worker
    await worker.clean_up()


async def two_under_way(worker: WorkerProcess, caller: Caller) -> tuple[list[str], dict[str, psutil.Process]]:
    """Two jobs, and the engine in the middle of them: its scheduler stands still."""
    while True:
        async with caller.dispatching():
            jobs = [
                await caller.admit(TokenPrompt(IDS), max_tokens=TOKENS, ignore_eos=True) for _ in range(2)
            ]
            for job in jobs:
                await caller.first_block(job)
        engine = worker.engine()
        engine["scheduler"].suspend()
        if await caller.running() == len(jobs):
            return jobs, engine
        engine["scheduler"].resume()  # they were faster than this test
        async with caller.dispatching():
            for job in jobs:
                await caller.answer(job)


@pytest.mark.timeout(6 * START_S)
async def test_a_worker_outlives_its_engines(worker: WorkerProcess, caller: Caller) -> None:
    """One worker through it all, because each time an engine has to load again."""
    await eventually(worker.ready, within_s=START_S)

    # Without its detokenizer the engine would answer nothing. The answers go on with the next engine.
    jobs, first = await two_under_way(worker, caller)
    shared = shared_memory(first)
    assert shared
    with suppress(psutil.NoSuchProcess):  # it may have stood still for so long that it was killed
        first["detokenizer"].kill()
    await eventually(caller.all_free, within_s=START_S)
    assert (await caller.queue.depth()).waiting == 2
    await eventually(lambda: gone(*first.values()), within_s=START_S)
    await eventually(worker.ready, within_s=START_S)
    async with caller.dispatching():
        one, other = [await caller.answer(job) for job in jobs]
    assert one.end.outcome is Outcome.COMPLETED
    assert one.end.completion_tokens == len(one.token_ids) == TOKENS
    assert (one.token_ids, one.text) == (other.token_ids, other.text)

    # One that hangs is killed, all of it, after stall_s.
    second = worker.engine()
    shared |= shared_memory(second)
    whole = await caller.send(TokenPrompt(IDS), max_tokens=LONG, ignore_eos=True)
    await caller.first_block(whole)
    second["scheduler"].suspend()
    await eventually(lambda: gone(*second.values()), within_s=START_S)
    await eventually(caller.all_free, within_s=START_S)
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
