"""What people see of a pool's queue, and what they do to its jobs."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from dllm_stack.messages import Job, Tier, WorkerCard
from dllm_stack.queue import wire
from dllm_stack.queue.figures import DeadLetter, JobStatus, TenantStatus, WorkerStatus
from dllm_stack.redis import Connections

_decode_card = msgspec.msgpack.Decoder(WorkerCard).decode


class Inspection:
    """The part of `PoolQueue` for the command line. Nothing here is for the path of a request."""

    _connections: Connections
    _prefix: str

    async def _run(self, script: str, *args: str | bytes | int | float) -> Any:
        raise NotImplementedError

    async def now(self) -> float:
        """Unix seconds, by the clock that the times below go by."""
        return cast(int, await self._run("now")) / 1000

    async def workers(self) -> list[WorkerStatus]:
        """The live ones."""
        return [
            WorkerStatus(
                card=_decode_card(card),
                running=running,
                load=load,
                failures=failures,
                set_aside_until=until_ms / 1000 if until_ms else None,
                draining=bool(draining),
            )
            for card, running, load, failures, until_ms, draining in await self._run("workers")
        ]

    async def tenants(self) -> list[TenantStatus]:
        """Those that have open jobs, by name."""
        rows = sorted(await self._run("tenants"))
        return [TenantStatus(tenant.decode(errors="replace"), *figures) for tenant, *figures in rows]

    async def waiting(self, limit: int) -> list[JobStatus]:
        """By tier, and in the order in which they came."""
        return [_status(row) for row in await self._run("list", "waiting", limit)]

    async def running(self, limit: int) -> list[JobStatus]:
        return [_status(row) for row in await self._run("list", "running", limit)]

    async def show(self, job_id: str) -> tuple[JobStatus, Job] | None:
        """An open job; None: there is none such."""
        rows = await self._run("list", job_id, 1)
        async with self._connections.limit():
            body = await self._connections.commands.get(f"{self._prefix}body:{job_id}")
        if not rows or body is None:
            return None
        return _status(rows[0]), wire.decode_job(body)

    async def revoke(self, job_id: str) -> bool:
        """Ends an open job and tells its client that an operator did. False: nobody waits for such a job."""
        return cast(int, await self._run("revoke", job_id)) == 1

    async def dead(self) -> list[DeadLetter]:
        """Jobs that lost all their workers within a day, the oldest first."""
        return [wire.dead_letter(*entry) for entry in await self._dead_entries()]

    async def forget_dead(self, job_id: str) -> bool:
        """Removes a dead letter, as when it has been sent again. False: there is none such."""
        ids = [id for id, fields in await self._dead_entries() if fields[b"id"].decode() == job_id]
        if not ids:
            return False
        async with self._connections.limit():
            await self._connections.commands.xdel(self._prefix + "dead", *ids)
        return True

    async def _dead_entries(self) -> list[tuple[bytes, dict[bytes, bytes]]]:
        async with self._connections.limit():
            entries: Any = await self._connections.commands.xrange(self._prefix + "dead")
        return list(entries)


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
