"""Gateway, router and workers on a real Valkey that is frozen, emptied and set back, while workers die.

Everything between the client and the engine is real; the engine is a fake, so that hundreds of requests
fit into seconds.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest
from prometheus_client import CollectorRegistry
from tokenizers import Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel

from dllm_stack.local.service import free_port
from dllm_stack.local.valkey import command
from dllm_stack.messages import Job, ModelCard, TokenPrompt
from dllm_stack.outcomes import Outcome, RequestError
from dllm_stack.queue import PoolQueue, Registry
from dllm_stack.redis import Connections, RedisError
from dllm_stack.settings import GatewaySettings, QueueSettings, RedisSettings, Settings
from gateway.feed import Feed
from gateway.ticket import Ticket
from router.dispatcher import Dispatcher
from router.metrics import RouterMetrics
from worker.claims import Claims
from worker.engine.client import Finish, Progress
from worker.engine.supervisor import Engine
from worker.metrics import WorkerMetrics
from worker.prompt import Renderer
from worker.run import Runner

POOL = "tiny"
BLOCK_SIZE, TOKENS, SLOTS = 4, 19, 4
CARD = ModelCard(name=POOL, context_length=1000, block_size=BLOCK_SIZE, algorithm="LowConfidence", created=0)
REQUESTS, A_SECOND = 100, 30


def token(request: int, place: int) -> int:
    """Of a sequence whose first token, the prompt, is the request's number."""
    return (request + place) % REQUESTS


def answer(request: int) -> str:
    return "".join(f" {token(request, place)}" for place in range(1, TOKENS + 1))


def renderer() -> Renderer:
    tokenizer = Tokenizer(WordLevel({f" {number}": number for number in range(REQUESTS)}))
    tokenizer.decoder = Fuse()
    return Renderer(tokenizer, None, {}, vocab_size=REQUESTS)


class FakeGeneration:
    def __init__(self, given: list[int], dice: random.Random) -> None:
        self._request = given[0]
        self._place = len(given)
        self._dice = dice

    async def next(self, within_s: float = 0) -> Progress:
        await asyncio.sleep(self._dice.uniform(0, 0.1))
        begin, block_end = self._place, (self._place // BLOCK_SIZE + 1) * BLOCK_SIZE
        self._place = min(block_end, TOKENS + 1)
        finish = Finish(type="stop") if self._place == TOKENS + 1 else None
        return Progress([token(self._request, place) for place in range(begin, self._place)], 0, finish)

    async def stop(self) -> bool:
        await asyncio.sleep(self._dice.uniform(0, 0.05))
        return True


class FakeEngine:
    """Counts on from what it is given, a block at a time."""

    ready = True
    info = SimpleNamespace(limits=SimpleNamespace(prompt=1000, context=1000), algorithm=None)

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    async def generate(self, given: list[int], *_: object) -> FakeGeneration:
        return FakeGeneration(given, self._dice)


class Worker:
    def __init__(self, settings: Settings, dice: random.Random) -> None:
        self._connections = Connections(settings.redis)
        queue, id = PoolQueue(self._connections, POOL, settings.queue), uuid.uuid4().hex
        metrics = WorkerMetrics(CollectorRegistry(), POOL)
        engine = cast(Engine, FakeEngine(dice))
        runner = Runner(id, queue, engine, renderer(), metrics, block_size=BLOCK_SIZE, stall_s=60)
        self.claims = Claims(
            id,
            queue,
            Registry(self._connections),
            metrics,
            heartbeat_s=settings.queue.heartbeat_s,
            state=lambda: ("ready", SLOTS, CARD),
            start=runner.run,
            ask=lambda question: None,
        )
        self._loops = [asyncio.create_task(self.claims.beat()), asyncio.create_task(self.claims.obey())]

    async def die(self) -> None:
        """Says nothing to anybody, like kill -9."""
        await _cancel(*self._loops, *self.claims._tasks.values())
        await self._connections.aclose()

    async def leave(self) -> None:
        await self.claims.drain(0.1)
        await _cancel(*self._loops)
        await self.claims.leave()
        await self._connections.aclose()


class Chaos:
    """A running pool, and what may happen to it."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self._folder = folder
        self._dice = dice
        self._port = free_port()
        self.settings = Settings(
            redis=RedisSettings(url=f"redis://127.0.0.1:{self._port}/0", timeout_s=1.5),
            queue=QueueSettings(heartbeat_s=0.1, heartbeat_ttl_s=3, max_attempts=50),
            gateway=GatewaySettings(reply_grace_s=30),
        )
        self.connections = Connections(self.settings.redis)
        self.workers: list[Worker] = []

    async def start(self) -> None:
        self._start_valkey()
        await eventually(self.answers)
        queue = PoolQueue(self.connections, POOL, self.settings.queue)
        self.feeds = {id: Feed(queue, id, self.settings) for id in (uuid.uuid4().hex, uuid.uuid4().hex)}
        routers = [Dispatcher(queue, RouterMetrics(CollectorRegistry())) for _ in range(2)]
        self._routers = [asyncio.create_task(router.run()) for router in routers]
        self.workers = [Worker(self.settings, self._dice) for _ in range(2)]

        async def workers_there() -> bool:
            return (await queue.depth()).workers == len(self.workers)

        await eventually(workers_there)

    async def stop(self) -> None:
        for feed in self.feeds.values():
            await feed.aclose()
        for worker in self.workers:
            await worker.leave()
        await _cancel(*self._routers)
        await self.connections.aclose()

    async def a_worker_dies(self) -> None:
        self.workers.append(Worker(self.settings, self._dice))
        await self.workers.pop(0).die()

    async def a_worker_leaves(self) -> None:
        self.workers.append(Worker(self.settings, self._dice))
        await self.workers.pop(0).leave()

    async def somebody_is_taken_for_dead(self) -> None:
        for kind in ("workers", "gateways"):
            async with self.connections.limit():
                names: list[Any] = await self.connections.commands.zrange(f"dllm:{{{POOL}}}:{kind}", 0, -1)
                lost = {name: 0 for name in names if self._dice.random() < 0.5}
                if lost:
                    await self.connections.commands.zadd(f"dllm:{{{POOL}}}:{kind}", lost, xx=True)

    async def connections_break(self) -> None:
        async with self.connections.limit():
            clients: Any = await self.connections.commands.client_list()
        for client in clients:
            if self._dice.random() < 0.5:
                async with self.connections.limit():
                    await self.connections.commands.client_kill_filter(_id=client["id"])

    async def redis_hangs(self) -> None:
        self._valkey.suspend()
        await asyncio.sleep(self._dice.uniform(0, 2.5))
        self._valkey.resume()

    async def redis_comes_back_empty(self) -> None:
        self.kill_valkey()
        await asyncio.sleep(self._dice.uniform(0, 1))
        self._start_valkey()

    async def redis_loses_its_last_second(self) -> None:
        async with self.connections.limit():
            await self.connections.commands.save()
        await asyncio.sleep(self._dice.uniform(0, 1))
        self.kill_valkey()
        self._start_valkey()
        await eventually(self.answers)
        (self._folder / "dump.rdb").unlink()

    async def answers(self) -> bool:
        try:
            await self.connections.ping()
        except RedisError:
            return False
        return True

    def _start_valkey(self) -> None:
        self._valkey = psutil.Popen(command(self._port, self._folder), stdout=subprocess.DEVNULL)

    def kill_valkey(self) -> None:
        self._valkey.kill()
        self._valkey.wait()


FAULTS = [
    Chaos.a_worker_dies,
    Chaos.a_worker_leaves,
    Chaos.somebody_is_taken_for_dead,
    Chaos.connections_break,
    Chaos.redis_hangs,
    Chaos.redis_comes_back_empty,
    Chaos.redis_loses_its_last_second,
]


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def ask(number: int, feed: Feed, gateway: str, dice: random.Random) -> str:
    """Sends a request as a gateway does, and says how it ended."""
    wake = asyncio.Event()
    id, stream, patience = uuid.uuid4().hex, dice.random() < 0.5, dice.choice([None] * 9 + [0.3])
    job = Job(id=id, pool=POOL, gateway=gateway, prompt=TokenPrompt([number]), streamed=stream)
    ticket, text = Ticket(job, wake.set), ""
    try:
        await feed.admit(ticket)
        async with asyncio.timeout(patience):
            while ticket.end is None:
                await wake.wait()
                wake.clear()
                if stream or ticket.end is not None:
                    text += "".join(arrival.block.text for arrival in ticket.take())
    except RequestError as error:
        return str(error.problem.code)
    except TimeoutError:
        return "client gone"
    finally:
        feed.release(ticket)
    if ticket.end.outcome is Outcome.COMPLETED:
        return "answered" if text == answer(number) else f"wrong: {text}"
    assert ticket.end.problem is not None, ticket.end
    return str(ticket.end.problem.code)


@pytest.fixture
async def chaos(tmp_path: Path) -> AsyncIterator[Chaos]:
    chaos = Chaos(tmp_path, random.Random(0))
    try:
        await chaos.start()
        yield chaos
        await chaos.stop()
    finally:
        chaos.kill_valkey()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
async def test_every_request_ends_once_whatever_happens(
    chaos: Chaos, fault: Callable[[Chaos], Awaitable[None]], record: Callable[[str], None]
) -> None:
    dice = random.Random(1)
    over = asyncio.Event()

    async def happen() -> None:
        while not over.is_set():
            await asyncio.sleep(dice.uniform(0, 0.8))
            with suppress(RedisError):  # the fault before is not over
                await fault(chaos)

    happening = asyncio.create_task(happen())
    requests: list[asyncio.Task[str]] = []

    def answered() -> int:
        return sum(request.done() and request.result() == "answered" for request in requests)

    # More of them on a machine that is so slow that few are answered between two faults.
    while len(requests) < REQUESTS or answered() <= REQUESTS / 10:
        gateway, feed = dice.choice(list(chaos.feeds.items()))
        requests.append(asyncio.create_task(ask(len(requests) % REQUESTS, feed, gateway, dice)))
        await asyncio.sleep(dice.expovariate(A_SECOND))
    over.set()
    await happening
    ends = Counter(await asyncio.gather(*requests))
    record(f"{len(requests)} requests while {fault.__name__}: {dict(ends)}")

    assert set(ends) <= {"answered", "client gone", "queue_unavailable", "no_worker"}

    async def nothing_left() -> bool:
        async with chaos.connections.limit():
            keys: list[Any] = await chaos.connections.commands.keys("*")
        of_jobs = ("job:", "body:", "answer:", "waiting", "line:", "ready:", "deadlines", "running", "owned:")
        busy = any(worker.claims.busy for worker in chaos.workers)
        return not busy and not any(key.decode().partition("}:")[2].startswith(of_jobs) for key in keys)

    await eventually(nothing_left)
