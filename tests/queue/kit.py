"""What the tests of a pool's queue share: its jobs and workers, and time that passes when they say so."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

from dllm_stack import redis as redis_module
from dllm_stack.messages import (
    Block,
    Claim,
    Command,
    Decoding,
    End,
    Job,
    Place,
    Reply,
    TextPrompt,
    Tier,
    WorkerCard,
)
from dllm_stack.outcomes import ErrorCode, Outcome, Problem
from dllm_stack.queue import START, Dispatched, PoolQueue
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings

POOL = "tiny"
PREFIX = f"dllm:{{{POOL}}}:"
BLOCK = Block(text="hello", token_ids=[1, 2, 3], prompt_tokens=5)
BEGINNING = Place(0, 0)
AFTER_BLOCK = Place(3, 5)
DONE = End(outcome=Outcome.COMPLETED, finish_reason="stop", prompt_tokens=5, completion_tokens=3)
FAILED = End(outcome=Outcome.FAILED, problem=Problem(ErrorCode.ENGINE_ERROR, "It broke."))
CANCELLED = End(outcome=Outcome.CANCELLED)


def patient(**settings: Any) -> QueueSettings:
    """Between two steps of a test a machine may stand still, and nobody be taken for dead."""
    return QueueSettings(**{"heartbeat_ttl_s": 10_000.0} | settings)


class WatchedQueue(PoolQueue):
    """Its `dispatch` tells of those jobs too that went to a slot as they were admitted."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._untold: list[Dispatched] = []

    async def dispatch(self) -> list[Dispatched]:
        await super().dispatch()
        return self.told()

    def told(self) -> list[Dispatched]:
        """What has gone to a slot since the last call."""
        told, self._untold = self._untold, []
        return told

    def _dispatched(self, rows: list[list[Any]], admitted: float | None = None) -> list[Dispatched]:
        self._untold += (found := super()._dispatched(rows, admitted))
        return found


@asynccontextmanager
async def held(queue: PoolQueue) -> AsyncIterator[None]:
    """Jobs that are admitted meanwhile wait, whatever is free."""
    await queue.pause()
    yield
    await queue.resume()


def job(
    number: int,
    *,
    gateway: str = "g",
    text: str = "hi",
    tenant: str = "default",
    tier: Tier = Tier.DEFAULT,
    max_tokens: int | None = None,
    timeout_s: float | None = None,
    session: str | None = None,
) -> Job:
    return Job(
        id=id_of(number),
        pool=POOL,
        gateway=gateway,
        prompt=TextPrompt(text),
        decoding=Decoding(max_tokens=max_tokens),
        tenant=tenant,
        tier=tier,
        timeout_s=timeout_s,
        session=session,
    )


def id_of(number: int) -> str:
    return f"{number:032x}"


def numbers(dispatched: list[Dispatched]) -> list[int]:
    return [int(d.job_id, 16) for d in dispatched]


async def beat(
    queue: PoolQueue, worker: str = "w", slots: int = 1, *, acked: str = START, held: list[str] | None = None
) -> list[str]:
    card = WorkerCard(id=worker, pool=POOL, slots=slots, state="ready")
    return await queue.worker_heartbeat(card, acked=acked, held=held or [])


async def dispatch_one(queue: PoolQueue) -> Dispatched:
    [dispatched] = await queue.dispatch()
    return dispatched


async def run_one(queue: PoolQueue, end: End = DONE) -> int:
    """Dispatches one job, ends it, and says which."""
    dispatched = await dispatch_one(queue)
    assert await queue.finish(dispatched.worker, dispatched.job_id, dispatched.attempt, BEGINNING, end)
    return int(dispatched.job_id, 16)


async def commands(queue: PoolQueue, worker: str = "w") -> list[Command]:
    return (await queue.commands(worker, START))[1]


async def last_claim(queue: PoolQueue, worker: str = "w") -> Claim:
    command = (await commands(queue, worker))[-1]
    assert isinstance(command, Claim)
    return command


async def replies(queue: PoolQueue, gateway: str = "g") -> list[Reply]:
    return (await queue.replies(gateway, START))[1]


async def ends(queue: PoolQueue, gateway: str = "g") -> list[tuple[int, Outcome, ErrorCode | None]]:
    """The number, outcome and error code of each job that ended."""
    return [
        (int(r.job_id, 16), r.end.outcome, r.end.problem.code if r.end.problem else None)
        for r in await replies(queue, gateway)
        if r.end is not None
    ]


async def woken(queue: PoolQueue, cause: Awaitable[object]) -> bool:
    """Does a router asleep wake for this?"""
    # Nobody takes a sleep to its end for an awakening, however busy the machine is.
    with patch.object(redis_module, "BLOCK_S", 60.0):
        sleeper = asyncio.create_task(queue.wait())
        await cause
        done, _ = await asyncio.wait({sleeper}, timeout=50.0)
        await sleeper
    return bool(done)


async def sleeps_on(queue: PoolQueue) -> bool:
    """A router that falls asleep now is not woken: what wakes one lies there until it is taken."""
    return not await queue._connections.commands.exists(PREFIX + "wake")


async def kill(connections: Connections, kind: str, name: str) -> None:
    """Lets the heartbeat of one of the workers or gateways run out."""
    await connections.commands.zadd(PREFIX + kind, {name: 0})


async def lose_pool(connections: Connections) -> None:
    """The pool has had no worker for longer than its grace."""
    await connections.commands.delete(PREFIX + "last_worker")


async def pass_time(connections: Connections, seconds: float) -> None:
    """Redis' clock moves by so much, as all that the queue has written down sees it; back if negative."""
    redis: Any = connections.commands
    ms = round(seconds * 1000)
    for key in await redis.keys(PREFIX + "*"):
        name = key.decode().removeprefix(PREFIX)
        if re.match("(waiting|line):", name):
            await _move_scores(redis, key, 1000 * ms)
        elif re.match("(workers|gateways|deadlines|set_aside)$|prefix:", name):
            await _move_scores(redis, key, ms)
        elif name.startswith("job:"):
            order, deadline = await redis.hmget(key, "order", "deadline")
            await redis.hset(key, "order", str(int(order) - 1000 * ms))
            if deadline != b"0":
                await redis.hset(key, "deadline", str(int(deadline) - ms))
    if watched := await redis.get(PREFIX + "watched"):
        await redis.set(PREFIX + "watched", int(watched) - ms, keepttl=True)
    if at := await redis.hget(PREFIX + "drain", "at"):
        await redis.hset(PREFIX + "drain", "at", str(int(at) - ms))


async def _move_scores(redis: Any, key: bytes, by: int) -> None:
    for member, _ in await redis.zrange(key, 0, -1, withscores=True):
        await redis.zincrby(key, -by, member)


async def keys_of_jobs(connections: Connections) -> list[str]:
    """Every key but those that last as long as a worker, a gateway or the pool, or for a time."""
    lasting = re.compile(
        "(workers|worker:.*|commands:.*|free|set_aside|last_worker|watched|gateways|replies:.*|drain|wake"
        "|tally|dead|drained:.*|paused(:.*)?|draining|session:.*|prefix:.*)$"
    )
    keys: Any = await connections.commands.keys(PREFIX + "*")
    names = [key.decode().removeprefix(PREFIX) for key in keys]
    return [name for name in names if not lasting.match(name)]
