"""What people see of a pool's queue, and what they do to its jobs."""

from __future__ import annotations

from typing import Any, cast

from dllm_stack.messages import Job, Tier
from dllm_stack.queue import wire
from dllm_stack.queue.figures import DeadLetter, JobStatus, TenantStatus, WorkerStatus
from dllm_stack.redis import Connections


class Inspection:
    """The part of `PoolQueue` for the command line. Nothing here is for the path of a request."""

    _connections: Connections
    _prefix: str
    pool: str

    async def _run(self, script: str, *args: str | bytes | int | float) -> Any:
        raise NotImplementedError

    async def now(self) -> float:
        """Unix seconds, by the clock that the times below go by."""
        return cast(int, await self._run("now")) / 1000

    async def workers(self) -> list[WorkerStatus]:
        """The live ones."""
        return [
            WorkerStatus(
                card=wire.card(card, id=worker.decode(), pool=self.pool, slots=slots),
                running=running,
                load=load,
                failures=failures,
                set_aside_until=until_ms / 1000 if until_ms else None,
                draining=bool(draining),
                paused=bool(paused),
            )
            for worker, card, slots, running, load, failures, until_ms, draining, paused in await self._run(
                "workers"
            )
        ]

    async def tenants(self, limit: int) -> list[TenantStatus]:
        """Those that have open jobs, by name: as many as `limit` with the most waiting, and with the most
        running."""
        rows = sorted(await self._run("tenants", limit))
        return [TenantStatus(tenant.decode(errors="replace"), *figures) for tenant, *figures in rows]

    async def waiting(self, limit: int) -> list[JobStatus]:
        """By tier, and in the order in which they came."""
        return [_status(row) for row in await self._run("list", "waiting", limit)]

    async def running(self, limit: int) -> list[JobStatus]:
        return [_status(row) for row in await self._run("list", "running", limit)]

    async def show(self, job_id: str) -> tuple[JobStatus, Job | None] | None:
        """An open job, and its request if that can be read; None: there is none such."""
        rows = await self._run("list", job_id, 1)
        async with self._connections.limit():
            body = await self._connections.commands.get(f"{self._prefix}body:{job_id}")
        if not rows or body is None:
            return None
        return _status(rows[0]), wire.job(body)

    async def revoke(self, job_id: str) -> bool:
        """Ends an open job and tells its client that an operator did. False: nobody waits for such a job."""
        return cast(int, await self._run("revoke", job_id)) == 1

    async def dead(self) -> list[DeadLetter]:
        """Jobs that lost all their workers within a day, the oldest first."""
        return [wire.dead_letter(*row) for row in await self._run("dead", "")]

    async def dead_job(self, job_id: str) -> Job | None:
        """The request of a dead job; None: it was too large to keep, or cannot be read."""
        body = await self._run("dead", job_id)
        return None if body is None else wire.job(body)

    async def forget_dead(self, job_id: str) -> bool:
        """Removes a dead letter, as when it has been sent again. False: there is none such."""
        ids = [
            entry for entry, id, *_ in await self._run("dead", "") if id.decode(errors="replace") == job_id
        ]
        if not ids:
            return False
        async with self._connections.limit():
            await self._connections.commands.xdel(self._prefix + "dead", *ids)
        return True


def _status(row: list[bytes]) -> JobStatus:
    id, *rest = row
    found = dict(zip(rest[::2], rest[1::2], strict=True))
    deadline_ms = int(found[b"deadline"])
    worker = found.get(b"worker")
    return JobStatus(
        id=id.decode(),
        tenant=found[b"tenant"].decode(),
        tier=Tier(found[b"tier"].decode()),
        state=found[b"state"].decode(),
        age_s=int(found[b"age_ms"]) / 1000,
        attempt=int(found[b"attempt"]),
        worker=None if worker is None else worker.decode(),
        estimate=int(found[b"estimate"]),
        committed=int(found[b"tokens"]),
        bytes=int(found[b"bytes"]),
        gateway=found[b"gateway"].decode(),
        cancelled=b"cancelled" in found,
        deadline=deadline_ms / 1000 if deadline_ms else None,
    )
