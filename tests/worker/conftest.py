"""A real engine for the whole session, and a worker attached to it for each test that asks for one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from dllm_stack.messages import Block, Committed, Decoding, End, Job, Place, Prompt, Reply
from dllm_stack.queue import START
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings, RedisSettings, Settings, WorkerSettings
from tests.engine.running import START_S, Running
from tests.queue.kit import WatchedQueue
from tests.waiting import eventually
from worker import plan as plans
from worker.engine import catalog, checkpoint
from worker.main import Worker

MODEL = "tiny-llada2"
NOTHING = Committed()
BEGINNING = Place(0, 0)


def engine_children(launcher: psutil.Process) -> list[psutil.Process]:
    """Scheduler and detokenizer, which SGLang starts in this order. It does not always name them."""
    children = sorted(launcher.children(), key=lambda child: child.pid)
    lines = {child: _command_line(child) for child in children}
    return [child for child, line in lines.items() if "spawn_main" in line or "sglang::" in line]


def _command_line(process: psutil.Process) -> str:
    """Empty once it has ended: SGLang runs small programs while it loads."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


@dataclass(frozen=True)
class RunningEngine:
    url: str
    launcher: psutil.Process | None  # None when it is somebody else's

    def scheduler(self) -> psutil.Process:
        if self.launcher is None:
            pytest.skip("needs an engine of its own, not DLLM_TEST_ENGINE_URL")
        return engine_children(self.launcher)[0]

    async def tokens_in_use(self) -> int:
        """KV cache tokens of requests that the engine runs now, from the engine itself."""
        async with (
            aiohttp.ClientSession(self.url, raise_for_status=True) as session,
            session.get("/v1/loads") as response,
        ):
            return int((await response.json())["loads"][0]["num_used_tokens"])

    async def idle(self) -> bool:
        return await self.tokens_in_use() == 0

    async def answer(self, token_ids: list[int], **sampling: Any) -> dict[str, Any]:
        """What the engine answers when it is asked without the worker."""
        body = {"input_ids": token_ids, "sampling_params": {"temperature": 0, **sampling}}
        async with (
            aiohttp.ClientSession(self.url, raise_for_status=True) as session,
            session.post("/generate", json=body) as response,
        ):
            answer: dict[str, Any] = await response.json()
            return answer


@pytest.fixture(scope="session")
def location() -> str:
    """The folder of the tiny checkpoint."""
    return checkpoint.locate(catalog.load_model(MODEL))


@pytest.fixture(scope="session")
def facts(location: str) -> catalog.Facts:
    return checkpoint.facts(catalog.load_model(MODEL), location)


@pytest.fixture(scope="session")
def engine(running_engine: Running) -> RunningEngine:
    """The one of tests/engine."""
    return RunningEngine(running_engine.url, running_engine.launcher)


@dataclass(frozen=True)
class Answer:
    """The replies of one job, in order and without repeats."""

    blocks: list[Block]
    end: End

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.blocks)

    @property
    def token_ids(self) -> list[int]:
        return [each for block in self.blocks for each in block.token_ids]


class Caller:
    """Stands where gateway and router stand: admits jobs, dispatches them, reads replies."""

    def __init__(self, connections: Connections, settings: QueueSettings) -> None:
        self.queue = WatchedQueue(connections, MODEL, settings)
        self.redis = connections.commands
        self.gateway = uuid.uuid4().hex
        self._after = START
        self._replies: list[Reply] = []

    async def send(self, prompt: Prompt, **decoding: Any) -> str:
        """Admits a job and dispatches it as soon as there is a slot; returns its id."""
        job_id = await self.admit(prompt, **decoding)
        await self.dispatch(job_id)
        return job_id

    async def admit(
        self, prompt: Prompt, *, attempts: int = 0, committed: Committed = NOTHING, **decoding: Any
    ) -> str:
        job = Job(
            id=uuid.uuid4().hex,
            pool=MODEL,
            gateway=self.gateway,
            prompt=prompt,
            decoding=Decoding(**decoding),
        )

        async def admitted() -> bool:  # once there is a worker
            await self.queue.gateway_heartbeat(self.gateway, START)
            return await self.queue.admit(job, attempts=attempts, committed=committed) is None

        await eventually(admitted, within_s=START_S)
        return job.id

    async def dispatch(self, job_id: str) -> int:
        """Returns the attempt."""
        return (await self.dispatch_all([job_id]))[job_id]

    async def dispatch_all(self, job_ids: list[str]) -> dict[str, int]:
        """Returns the attempt of each, once all have a slot."""
        attempts: dict[str, int] = {}

        async def dispatched() -> bool:
            attempts.update({each.job_id: each.attempt for each in await self.queue.dispatch()})
            return attempts.keys() >= set(job_ids)

        await eventually(dispatched, within_s=START_S)  # once an engine is loaded, or loaded again
        return attempts

    @asynccontextmanager
    async def dispatching(self) -> AsyncIterator[None]:
        """Meanwhile every job that waits is given to a worker, as often as it is lost."""

        async def dispatch() -> None:
            while True:
                await self.queue.dispatch()
                await asyncio.sleep(0.05)

        task = asyncio.create_task(dispatch())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def replies(self, job_id: str) -> AsyncIterator[Reply]:
        """Those of a job, until its end."""
        seen = 0
        while True:
            while seen < len(self._replies):
                reply = self._replies[seen]
                seen += 1
                if reply.job_id == job_id:
                    yield reply
                    if reply.end is not None:
                        return
            self._after, fresh = await self.queue.replies(self.gateway, self._after)
            self._replies += fresh

    async def first_block(self, job_id: str) -> Block:
        async for reply in self.replies(job_id):
            assert reply.block is not None, f"ended before its first block: {reply.end}"
            return reply.block
        raise AssertionError("no reply")

    async def block_of(self, job_id: str, attempt: int) -> Block:
        """The first of an attempt, or of a later one."""
        async for reply in self.replies(job_id):
            if reply.attempt >= attempt and reply.block is not None:
                return reply.block
        raise AssertionError("no such block")

    async def answer(self, job_id: str, place: Place = BEGINNING) -> Answer:
        """What is behind `place`. Each block must go on where the one before has ended."""
        blocks: list[Block] = []
        async for reply in self.replies(job_id):
            if (block := reply.block) is not None:
                assert reply.after == place, "a reply is missing, or in disorder"
                place = Place(place.tokens + len(block.token_ids), place.characters + len(block.text))
                blocks.append(block)
            if reply.end is not None:
                return Answer(blocks, reply.end)
        raise AssertionError("no end")

    async def lose(self, worker: str) -> dict[str, list[str]]:
        """As if its heartbeat had stopped long ago; returns what becomes of its jobs."""
        while True:
            await self.redis.zadd(f"dllm:{{{self.queue.pool}}}:workers", {worker: 1})
            if fates := (await self.queue.reclaim()).fates:  # unless a heartbeat has come in between
                return fates

    async def running(self) -> int:
        """Slots in use."""
        return (await self.queue.depth()).running

    async def slots(self) -> int:
        return (await self.queue.depth()).slots

    async def all_free(self) -> bool:
        return await self.running() == 0


QUEUE = QueueSettings(heartbeat_s=0.2, heartbeat_ttl_s=600.0)


@pytest.fixture
def caller(connections: Connections) -> Caller:
    return Caller(connections, QUEUE)


class AttachedWorker:
    """A whole worker in this process, on an engine that somebody else runs."""

    def __init__(self, redis: RedisSettings, engine_url: str, run_dir: Path, **settings: Any) -> None:
        worker = WorkerSettings(**{"port": 0, "model": MODEL, "engine_url": engine_url} | settings)
        self.plan = plans.make(worker, created=0)
        self._worker = Worker(Settings(redis=redis, queue=QUEUE, worker=worker), self.plan, run_dir)
        self.id = self._worker.id
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()
        self.task = asyncio.create_task(self._worker.run(self.stop, self.hurry))

    async def leave(self) -> None:
        self.stop.set()
        self.hurry.set()
        await self.task


StartWorker = Callable[..., AttachedWorker]


@pytest.fixture
async def start_worker(
    redis_settings: RedisSettings, engine: RunningEngine, tmp_path: Path
) -> AsyncIterator[StartWorker]:
    """Starts workers with the settings given; they leave when the test ends."""
    started: list[AttachedWorker] = []

    def start(redis: RedisSettings = redis_settings, **settings: Any) -> AttachedWorker:
        started.append(AttachedWorker(redis, engine.url, tmp_path, **settings))
        return started[-1]

    yield start
    for each in started:
        await each.leave()
