"""What people tell a pool and its workers to do, until they tell otherwise."""

from __future__ import annotations

from typing import Any, cast


class Orders:
    """The part of `PoolQueue` for orders. Each is kept in Redis, for every router and gateway, and is safe to
    repeat."""

    async def _run(self, script: str, *args: str | bytes | int | float) -> Any:
        raise NotImplementedError

    async def pause(self) -> None:
        """No job is dispatched: those that wait wait on, new ones too, and those that run go on. A pool that
        drains still takes no new ones."""
        await self._run("pause")

    async def drain(self) -> None:
        """No new job is admitted, but for those that Redis has lost. What waits is dispatched, also where the
        pool was paused."""
        await self._run("drain")

    async def resume(self) -> None:
        """Takes back both."""
        await self._run("resume")

    async def pause_worker(self, worker: str) -> None:
        """A worker gets no more jobs, whatever its heartbeat says, until it is resumed or leaves. An unknown
        one is no error."""
        await self._run("pause_worker", worker)

    async def resume_worker(self, worker: str) -> bool:
        """Takes back `pause_worker`. False: it gets no jobs all the same, as it was told to drain."""
        return cast(int, await self._run("resume_worker", worker)) == 1

    async def drain_worker(self, worker: str) -> None:
        """A worker gets no more jobs, whatever its heartbeat says, until it leaves. Nothing takes that back.
        An unknown one is no error."""
        await self._run("drain_worker", worker)
