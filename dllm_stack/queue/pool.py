"""The queue of one pool, as gateways, routers and workers see it.

Each method that changes something is one Lua script in `scripts/`, so each happens whole or not at
all; the keys are described in `scripts/lib/keys.lua`. Every method raises `RedisError` when Redis does
not answer in time, and is then safe to repeat.
"""

from __future__ import annotations

from typing import Any, cast

from dllm_stack.messages import (
    Block,
    Command,
    Committed,
    End,
    Information,
    Job,
    Place,
    Question,
    Reply,
    Tier,
    WorkerCard,
    encode,
)
from dllm_stack.outcomes import Outcome, Problem
from dllm_stack.queue import wire
from dllm_stack.queue.estimate import estimate, prefixes, prompt_bytes, session_hash
from dllm_stack.queue.figures import Committal, Depth, Dispatched, Position, Reclaimed, TierDepth
from dllm_stack.queue.inspection import Inspection
from dllm_stack.queue.orders import Orders
from dllm_stack.queue.script import AT_ONCE, Scripts
from dllm_stack.queue.telling import tell
from dllm_stack.queue.verdicts import draining, no_worker, queue_full, too_large
from dllm_stack.redis import Connections
from dllm_stack.settings import Bounds, QueueSettings, RouterSettings, TenantSettings
from dllm_stack.tracing import OFF, Tracer

START = "0-0"  # the id before the first entry of any stream

_NOTHING = Committed()
_NO_BOUNDS = Bounds()
_NO_TENANT_BOUNDS = TenantSettings()


class PoolQueue(Inspection, Orders):
    """
    Args:
        router: what picks the worker of a job. Only `admit` and `dispatch` need it, and alike.

    Attributes:
        reclaim_every_s: how often `reclaim` is to be called.
    """

    def __init__(
        self,
        connections: Connections,
        pool: str,
        settings: QueueSettings,
        router: RouterSettings | None = None,
        tracer: Tracer = OFF,
    ) -> None:
        self.pool = pool
        self.reclaim_every_s = settings.heartbeat_ttl_s / 4
        self._connections = connections
        self._settings = settings
        self._tracer = tracer
        self._prefix = f"dllm:{{{pool}}}:"
        self._scripts = Scripts(connections, self._prefix, settings, router or RouterSettings())

    async def _run(self, script: str, *args: str | bytes | int | float) -> Any:
        return await self._scripts.run(script, *args)

    # For gateways

    async def admit(self, job: Job, *, attempts: int = 0, committed: Committed = _NOTHING) -> Problem | None:
        """Queues a job, or says why not; if nobody is before it, it goes to a free slot at once. For a job
        that Redis has lost, `attempts` is how many it has had, and `committed` the answer so far; that one is
        not refused for want of room."""
        tier = self._settings.tiers.get(job.tier, _NO_BOUNDS)
        tenants = self._settings.tenants
        tenant = tenants.get(job.tenant) or tenants.get("default", _NO_TENANT_BOUNDS)
        prompt = prompt_bytes(job.prompt)
        tokens = estimate(job, prompt)
        verdict = await self._run(
            "admit",
            job.id,
            encode(job),
            job.gateway,
            job.tenant,
            job.tier,
            job.weight or tenant.weight,
            tenant.max_running or 0,
            tokens.prompt,
            tokens.total,
            0 if job.timeout_s is None else max(1, round(job.timeout_s * 1000)),
            session_hash(job),
            prefixes(prompt),
            attempts,
            wire.pack(committed.token_ids),
            committed.characters,
            tier.max_waiting_jobs or 0,
            tier.max_waiting_bytes or 0,
            tenant.max_waiting_jobs or 0,
            tenant.max_waiting_bytes or 0,
            job.request,
            job.trace.parent if job.trace else "",
        )
        match verdict:
            case [b"ok", *rows]:
                self._dispatched(rows)
                return None
            case [b"full", where, of, waiting, interval_ms]:
                bound = where.decode(), of.decode()
                return queue_full(self.pool, job.tenant, job.tier.value, *bound, waiting, interval_ms)
            case [b"too_large", where, most_bytes]:
                return too_large(self.pool, job.tenant, job.tier.value, where.decode(), most_bytes)
            case [b"draining"]:
                return draining(self.pool)
            case _:
                return no_worker(self.pool)

    async def cancel(self, job_id: str) -> None:
        """Ends a job whose client is gone. It gets no further reply. An unknown id is no error."""
        await self._run("cancel", job_id)

    async def position(self, job_id: str) -> Position | None:
        """None: it does not wait."""
        found = await self._run("position", job_id)
        return Position(*found) if found else None

    async def ask(self, question: Question) -> bool:
        """Sends a question to some live worker, whose slots do not matter. False: there is none."""
        return cast(int, await self._run("ask", question.id, question.gateway, encode(question))) == 1

    async def gateway_heartbeat(self, gateway: str, acked: str) -> None:
        """To be called every `heartbeat_s`. `acked` is the last reply read: those up to it are dropped."""
        await self._run("gateway_heartbeat", gateway, acked)

    async def gateway_leave(self, gateway: str) -> None:
        """Cancels what it still owns."""
        while await self._run("gateway_leave", gateway) == AT_ONCE:
            pass

    async def replies(self, gateway: str, after: str) -> tuple[str, list[Reply]]:
        """Replies behind the stream id `after`, waiting up to BLOCK_S for one, and the id of the last.

        Begin with START, and begin again there after a RedisError: what was read already is seen
        again and recognised by its attempt and place.
        """
        last, entries = await self._read(f"replies:{gateway}", after)
        return last, [wire.reply(self.pool, entry) for entry in entries]

    async def lost(self, gateway: str, acked: str, job_ids: list[str]) -> list[str]:
        """Which of these open jobs Redis no longer knows; none while there are unread replies."""
        return [job.decode() for job in await self._run("lost", gateway, acked, *job_ids)]

    # For routers

    async def wait(self) -> None:
        """Returns when there may be something to dispatch, or after BLOCK_S."""
        await self._connections.pop(self._prefix + "wake")

    async def dispatch(self) -> list[Dispatched]:
        """Hands waiting jobs to free slots, DISPATCH_AT_MOST in one call; `wait` then returns at once."""
        return self._dispatched(await self._run("dispatch"))

    async def reclaim(self) -> Reclaimed:
        """To be called every `reclaim_every_s`, and again at once when there is `more`: when nobody has for
        `heartbeat_ttl_s` / 2, heartbeats may not have been heard either, and nobody is declared dead."""
        workers, orphans, more, tally = await self._run("reclaim")
        counts = dict(zip(tally[::2], tally[1::2], strict=True))
        return Reclaimed(
            fates={worker.decode(): [fate.decode() for fate in jobs] for worker, *jobs in workers},
            orphans=orphans,
            more=bool(more),
            at_once={
                tier: int(jobs) for tier in Tier if (jobs := counts.pop(b"at_once:" + tier.encode(), None))
            },
            tally={reason.decode(): int(jobs) for reason, jobs in counts.items()},
        )

    async def depth(self) -> Depth:
        running, slots, workers, set_aside, dead, paused, draining, rows = await self._run("depth")
        tiers = {
            tier: TierDepth(waiting, waiting_bytes, oldest_ms / 1000)
            for tier, (waiting, waiting_bytes, oldest_ms) in zip(Tier, rows, strict=True)
        }
        return Depth(
            waiting=sum(tier.waiting for tier in tiers.values()),
            waiting_bytes=sum(tier.waiting_bytes for tier in tiers.values()),
            oldest_s=max(tier.oldest_s for tier in tiers.values()),
            running=running,
            slots=slots,
            workers=workers,
            set_aside=set_aside,
            dead_letters=dead,
            paused=bool(paused),
            draining=bool(draining),
            tiers=tiers,
        )

    # For workers

    async def worker_heartbeat(self, card: WorkerCard, *, acked: str, held: list[str]) -> list[str]:
        """To be called every `heartbeat_s`, and at once when the slots change.

        Args:
            acked: the last command read. A lease claimed up to it must be among `held`.
            held: the jobs the worker runs.

        Returns:
            Those of `held` that are not this worker's any more: it must stop them.
        """
        strays = await self._run("worker_heartbeat", card.id, encode(card), card.slots, acked, *held)
        return [job.decode() for job in strays]

    async def commands(self, worker: str, after: str) -> tuple[str, list[Command]]:
        """Commands behind the stream id `after`, waiting up to BLOCK_S for one, and the id of the last.

        Begin with START, and begin again there after a RedisError: a claim seen twice has the same
        job and attempt. A claim that cannot be read is left out; as nobody holds it, the next
        heartbeat gives the job back, and after `max_attempts` of those it fails.
        """
        last, entries = await self._read(f"commands:{worker}", after)
        return last, [command for entry in entries if (command := wire.command(entry)) is not None]

    async def commit(self, worker: str, job_id: str, attempt: int, after: Place, block: Block) -> Committal:
        """Sends a committed block, and keeps its tokens for an attempt that may have to go on from there.

        Args:
            block: with a token at least. Text alone goes with the next: an answer's place is its tokens.
        """
        wanted, tokens = await self._run(
            "commit",
            job_id,
            worker,
            attempt,
            after.tokens,
            after.characters,
            wire.pack(block.token_ids),
            after.characters + len(block.text),
            wire.payload(block, None),
        )
        return Committal(bool(wanted), tokens)

    async def finish(
        self,
        worker: str,
        job_id: str,
        attempt: int,
        after: Place,
        end: End,
        block: Block | None = None,
    ) -> bool:
        """Ends a job and frees its slot, with the last block of its answer if that was not committed. A job
        waits again, and that was a try, when its worker has cancelled it though its client still waits, and
        when Redis has lost some of what is `after`, which the next attempt makes again.

        Returns:
            False: it was not this worker's any more.
        """
        if end.outcome is Outcome.CANCELLED:
            return await self._release(worker, job_id, attempt, is_try=True, is_failure=False) != "fenced"
        held = await self._run(
            "finish",
            job_id,
            worker,
            attempt,
            after.tokens,
            after.characters,
            wire.payload(block, end),
            end.prompt_tokens + end.completion_tokens,
            end.outcome,
        )
        return cast(int, held) == 1

    async def release(self, worker: str, job_id: str, attempt: int, *, counts: bool) -> str:
        """Gives a job back without an answer, or with a part of it: its engine died (`counts`, as a try of
        the job and a failure of the worker) or never saw it.

        Returns:
            requeued | failed (no try was left) | cancelled | fenced
        """
        return await self._release(worker, job_id, attempt, is_try=counts, is_failure=counts)

    async def tell(self, worker: str, question: Question, told: Information) -> None:
        """Answers a question, if its gateway still lives."""
        await self._run("tell", question.gateway, question.id, worker, wire.information(told))

    async def worker_leave(self, worker: str) -> None:
        await self._run("worker_leave", worker)

    def _dispatched(self, rows: list[list[Any]]) -> list[Dispatched]:
        found = [wire.dispatched(row) for row in rows]
        for each in found:
            tell(self.pool, each, self._tracer)
        return found

    async def _release(
        self, worker: str, job_id: str, attempt: int, *, is_try: bool, is_failure: bool
    ) -> str:
        fate = await self._run("release", job_id, worker, attempt, int(is_try), int(is_failure))
        return cast(bytes, fate).decode()

    async def _read(self, stream: str, after: str) -> tuple[str, list[dict[bytes, bytes]]]:
        entries = await self._connections.entries(self._prefix + stream, after)
        if not entries:
            return after, []
        return entries[-1][0].decode(), [fields for _, fields in entries]
