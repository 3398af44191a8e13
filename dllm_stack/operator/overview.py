"""`ls`: tables of pools, workers and tenants, and of one pool's jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Literal

from redis.exceptions import ResponseError
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dllm_stack.messages import Tier
from dllm_stack.operator.session import OperatorError, Session, short, unreachable
from dllm_stack.operator.words import NOTHING, duration, harmless, number, size
from dllm_stack.queue import DeadLetter, Depth, JobStatus, PoolQueue, TenantStatus, WorkerStatus
from dllm_stack.redis import RedisError

_EVERY_S = 1.0
_ID_WIDTH = 32
_TIERS = tuple(str(tier) for tier in Tier)
_POOLS = ("pool", "state", "waiting", *_TIERS, "bytes", "oldest", "running", "slots", "workers")
_WORKERS = ("worker", "pod", "state", "running", "slots", "tokens", "failures")
_TENANTS = ("tenant", "waiting", "bytes", "running")
_RUNNING = ("running job", "tier", "tenant", "age", "time left", "attempt", "tokens", "worker")
_WAITING = ("waiting job", "tier", "tenant", "age", "time left", "attempts", "tokens")
_DEAD = ("dead job", "tenant", "age", "attempts", "reason")
_IDS = {"running job", "waiting job", "dead job"}
_LEFT = {*_IDS, "pool", "worker", "pod", "state", "tenant", "tier", "reason"}


async def show(session: Session, pool: str | None, limit: int) -> None:
    session.console.print(await tables(session, pool, limit))


async def watch(session: Session, pool: str | None, limit: int) -> None:
    """Until it is cancelled. While Redis is away, or has forgotten the pool, it says so."""
    content: RenderableType = await tables(session, pool, limit)
    console = session.console
    with ExitStack() as stack:
        show: Callable[[RenderableType], None] = console.print
        if console.is_terminal:  # elsewhere rich would show nothing before the end
            live = stack.enter_context(Live(content, console=console, screen=True, auto_refresh=False))
            show = partial(live.update, refresh=True)
        while True:
            show(Group(time.strftime("%H:%M:%S"), content))
            await asyncio.sleep(_EVERY_S)
            try:
                content = await tables(session, pool, limit)
            except RedisError as error:
                content = unreachable(session.settings, error)
            except OperatorError as error:
                content = str(error)


async def tables(session: Session, pool: str | None, limit: int) -> RenderableType:
    """
    Args:
        pool: None: all.
        limit: rows of a table.

    Raises:
        OperatorError: there is no such pool.
        RedisError
    """
    queues = await session.queues(pool)
    if not queues:
        return "No worker has announced a pool yet."
    pools: list[list[str]] = []
    shown: list[RenderableType] = []
    for queue in queues:
        try:
            depth, of_pool = await queue.depth(), await _tables_of(queue, limit, with_jobs=pool is not None)
        except ResponseError as error:  # somebody else has written into its keys
            shown += ["", Text(f"{queue.pool} cannot be read: {' '.join(str(error).split())}")]
        else:
            pools.append(_pool(queue.pool, depth))
            shown += of_pool
    return Group(table(_POOLS, pools), *shown)


async def _tables_of(queue: PoolQueue, limit: int, *, with_jobs: bool) -> list[RenderableType]:
    now, workers, tenants = await queue.now(), await queue.workers(), await queue.tenants(limit + 1)
    workers.sort(key=lambda status: (-status.load, status.card.pod or status.card.id))
    tenants.sort(key=lambda tenant: (-tenant.waiting, -tenant.running, tenant.tenant))
    name = Text(f"\n{queue.pool}", "bold")
    tables: list[RenderableType] = [name] if workers or tenants else []
    tables += _rows(_WORKERS, [_worker(status, now) for status in workers], limit)
    tables += _rows(_TENANTS, [_tenant(tenant) for tenant in tenants], limit)
    if with_jobs:
        running, waiting = await queue.running(limit + 1), await queue.waiting(limit + 1)
        tables += _rows(_RUNNING, [_running(job, workers, now) for job in running], limit)
        tables += _rows(_WAITING, [_job(job, now) for job in waiting], limit)
        dead = (await queue.dead())[::-1]
        tables += _rows(_DEAD, [_dead(letter, now) for letter in dead], limit)
    return tables


def _pool(name: str, depth: Depth) -> list[str]:
    waiting = [number(depth.tiers[tier].waiting) for tier in Tier]
    workers = f"{depth.workers} ({depth.set_aside} set aside)" if depth.set_aside else str(depth.workers)
    bytes, oldest = size(depth.waiting_bytes), duration(depth.oldest_s)
    if not depth.waiting:
        bytes = oldest = NOTHING
    orders = [word for word, is_so in (("draining", depth.draining), ("paused", depth.paused)) if is_so]
    row = [name, ", ".join(orders) or "open", str(depth.waiting), *waiting, bytes, oldest]
    return [*row, str(depth.running), str(depth.slots), workers]


def _worker(status: WorkerStatus, now: float) -> list[str]:
    card = status.card
    figures = [str(status.running), str(card.slots), number(status.load), number(status.failures)]
    return [card.id[:8], card.pod or NOTHING, state(status, now), *figures]


def state(status: WorkerStatus, now: float) -> str:
    if status.draining:
        return "draining"
    if status.paused:
        return "paused"
    if status.set_aside_until is None:
        return status.card.state
    left_s = status.set_aside_until - now
    return f"set aside, {duration(left_s)}" if left_s > 0 else "on trial"


def _tenant(status: TenantStatus) -> list[str]:
    bytes = size(status.waiting_bytes) if status.waiting else NOTHING
    return [status.tenant, number(status.waiting), bytes, number(status.running)]


def _running(job: JobStatus, workers: list[WorkerStatus], now: float) -> list[str]:
    return [*_job(job, now), NOTHING if job.worker is None else short(job.worker, workers)]


def _job(job: JobStatus, now: float) -> list[str]:
    left = NOTHING if job.deadline is None else duration(job.deadline - now)
    row = [job.id, str(job.tier), job.tenant, duration(job.age_s), "stopping" if job.cancelled else left]
    return [*row, number(job.attempt), number(job.committed)]


def _dead(letter: DeadLetter, now: float) -> list[str]:
    id, tenant, reason = (harmless(word) or NOTHING for word in (letter.job_id, letter.tenant, letter.reason))
    return [id, tenant, duration(now - letter.at), number(letter.attempts), reason]


def _rows(header: Sequence[str], rows: list[list[str]], limit: int) -> list[RenderableType]:
    if not rows:
        return []
    tables: list[RenderableType] = ["", table(header, rows[:limit])]
    if len(rows) > limit:
        tables.append(Text(f"more than these {limit}: see --limit", "dim"))
    return tables


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """As all of the operator's commands print one."""
    made = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for name in header:
        id_width = _ID_WIDTH if name in _IDS else None  # to be copied, so never cut
        justify: Literal["left", "right"] = "left" if name in _LEFT else "right"
        made.add_column(name, justify=justify, no_wrap=name != "reason", min_width=id_width)
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made
