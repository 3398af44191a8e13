"""The queue of one pool, as gateways, routers and workers see it.

Each method that changes something is one Lua script in `scripts/`, so each happens whole or not at
all; the keys are described in `scripts/prelude.lua`. Every method raises `RedisError` when Redis does
not answer in time, and is then safe to repeat.
"""

from __future__ import annotations

import math
from importlib.resources import files
from typing import Any, cast

import msgspec

from dllm_stack.messages import Block, Cancel, Claim, Command, End, Job, Reply, WorkerCard, encode
from dllm_stack.outcomes import ErrorCode, Outcome, Problem
from dllm_stack.redis import BLOCK_S, Connections
from dllm_stack.settings import QueueSettings

START = "0-0"  # the id before the first entry of any stream
DISPATCH_AT_MOST = 64  # jobs in one script call, so that one call stays short
RETRY_AFTER_CAP_S = 30

_PRELUDE = files("dllm_stack.queue.scripts").joinpath("prelude.lua").read_text()


class _Payload(msgspec.Struct, frozen=True, array_like=True):
    """The body of a reply; its other fields are fields of the stream entry, which scripts write."""

    block: Block | None = None
    end: End | None = None


_decode_payload = msgspec.msgpack.Decoder(_Payload).decode
_decode_job = msgspec.msgpack.Decoder(Job).decode


def _failure(message: str) -> bytes:
    problem = Problem(ErrorCode.WORKER_LOST, message)
    return encode(_Payload(end=End(outcome=Outcome.FAILED, problem=problem)))


_LOST = _failure("The worker was lost while it streamed this answer; send the request again.")
_EXHAUSTED = _failure("Every worker that ran this request was lost.")


class Dispatched(msgspec.Struct, frozen=True):
    job_id: str
    worker: str
    attempt: int
    waited_s: float


class Reclaimed(msgspec.Struct, frozen=True):
    """`fates`: for each dead worker, what became of its jobs: requeued | failed | cancelled | gone."""

    fates: dict[str, list[str]]
    orphans: int  # jobs cancelled because their gateway is dead


class Depth(msgspec.Struct, frozen=True):
    waiting: int
    waiting_bytes: int
    oldest_s: float
    running: int
    slots: int
    workers: int


class PoolQueue:
    """
    Attributes:
        reclaim_every_s: how often `reclaim` is to be called.
    """

    def __init__(self, connections: Connections, pool: str, settings: QueueSettings) -> None:
        self.pool = pool
        self.reclaim_every_s = settings.heartbeat_ttl_s / 4
        self._connections = connections
        self._settings = settings
        self._prefix = f"dllm:{{{pool}}}:"
        self._scripts: dict[str, Any] = {}
        self._ttl_ms = int(settings.heartbeat_ttl_s * 1000)

    async def _run(self, script: str, *args: str | bytes | int) -> Any:
        if script not in self._scripts:
            body = files("dllm_stack.queue.scripts").joinpath(f"{script}.lua").read_text()
            self._scripts[script] = self._connections.commands.register_script(_PRELUDE + body)
        async with self._connections.limit():
            return await self._scripts[script](keys=[self._prefix], args=args)

    # For gateways

    async def admit(self, job: Job, *, attempts: int = 0) -> Problem | None:
        """Queues a job, or says why not. `attempts` is how many a job re-admitted has had."""
        verdict = await self._run(
            "admit",
            job.id,
            encode(job),
            job.gateway,
            int(job.stream),
            attempts,
            self._settings.max_waiting_jobs,
            self._settings.max_waiting_bytes,
            self._ttl_ms,
        )
        match verdict:
            case [b"ok"]:
                return None
            case [b"full", waiting, interval_ms]:
                return _queue_full(self.pool, waiting, interval_ms)
            case _:
                return Problem(
                    ErrorCode.NO_WORKER,
                    f"No worker serves {self.pool!r} at present.",
                    param="model",
                    retry_after_s=RETRY_AFTER_CAP_S,
                )

    async def cancel(self, job_id: str) -> None:
        """Ends a job whose client is gone. It gets no further reply. An unknown id is no error."""
        await self._run("cancel", job_id)

    async def gateway_heartbeat(self, gateway: str, acked: str) -> None:
        """To be called every `heartbeat_s`. `acked` is the last reply read: those up to it are dropped."""
        await self._run("gateway_heartbeat", gateway, self._ttl_ms, acked)

    async def gateway_leave(self, gateway: str) -> None:
        await self._run("gateway_leave", gateway)

    async def replies(self, gateway: str, after: str) -> tuple[str, list[Reply]]:
        """Replies behind the stream id `after`, waiting up to BLOCK_S for one, and the id of the last.

        Begin with START, and begin again there after a RedisError: what was read already is seen
        again and recognised by its attempt and seq.
        """
        last, entries = await self._read(f"replies:{gateway}", after)
        return last, [_reply(entry) for entry in entries]

    async def lost(self, gateway: str, acked: str, job_ids: list[str]) -> list[str]:
        """Which of these open jobs Redis no longer knows; none while there are unread replies."""
        return [job.decode() for job in await self._run("lost", gateway, acked, *job_ids)]

    # For routers

    async def wait(self) -> None:
        """Returns when there may be something to dispatch, or after BLOCK_S."""
        async with self._connections.limit(block_s=BLOCK_S):
            await self._connections.blocking.blpop([self._prefix + "wake"], timeout=BLOCK_S)

    async def dispatch(self) -> list[Dispatched]:
        rows = await self._run("dispatch", DISPATCH_AT_MOST)
        return [
            Dispatched(job.decode(), worker.decode(), attempt, waited_ms / 1000)
            for job, worker, attempt, waited_ms in rows
        ]

    async def reclaim(self) -> Reclaimed:
        """To be called every `reclaim_every_s`: when nobody has for `heartbeat_ttl_s` / 2, heartbeats may
        not have been heard either, and nobody is declared dead."""
        workers, orphans = await self._run(
            "reclaim", self._settings.max_attempts, _LOST, _EXHAUSTED, self._ttl_ms
        )
        fates = {worker.decode(): [fate.decode() for fate in jobs] for worker, *jobs in workers}
        return Reclaimed(fates, orphans)

    async def depth(self) -> Depth:
        waiting, waiting_bytes, oldest_ms, running, slots, workers = await self._run("depth")
        return Depth(waiting, waiting_bytes, oldest_ms / 1000, running, slots, workers)

    # For workers

    async def worker_heartbeat(self, card: WorkerCard, *, acked: str, held: list[str]) -> list[str]:
        """To be called every `heartbeat_s`, and at once when the slots change.

        Args:
            acked: the last command read. A lease claimed up to it must be among `held`.
            held: the jobs the worker runs.

        Returns:
            Those of `held` that are not this worker's any more: it must stop them.
        """
        settings = self._settings
        strays = await self._run(
            "worker_heartbeat",
            card.id,
            encode(card),
            card.slots,
            self._ttl_ms,
            int(settings.worker_grace_s * 1000),
            acked,
            settings.max_attempts,
            _LOST,
            _EXHAUSTED,
            *held,
        )
        return [job.decode() for job in strays]

    async def commands(self, worker: str, after: str) -> tuple[str, list[Command]]:
        """Commands behind the stream id `after`, waiting up to BLOCK_S for one, and the id of the last.

        Begin with START, and begin again there after a RedisError: a claim seen twice has the same
        job and attempt. A claim that cannot be read is left out; as nobody holds it, the next
        heartbeat gives the job back, and after `max_attempts` of those it fails.
        """
        last, entries = await self._read(f"commands:{worker}", after)
        return last, [command for entry in entries if (command := _command(entry)) is not None]

    async def commit(self, worker: str, job_id: str, attempt: int, seq: int, block: Block) -> bool:
        """Sends a committed block. False: the job is not this worker's any more, or not wanted;
        stop the engine, then `finish`."""
        body = encode(_Payload(block=block))
        return cast(int, await self._run("commit", job_id, worker, attempt, seq, body)) == 1

    async def finish(self, worker: str, job_id: str, attempt: int, seq: int, end: End) -> bool:
        """Ends a job and frees its slot. A job that the worker has cancelled though its client still waits,
        as when it was told to stop an earlier attempt, goes back to the queue, and that was a try.

        Returns:
            False: it was not this worker's any more.
        """
        if end.outcome is Outcome.CANCELLED:
            return await self.release(worker, job_id, attempt, counts=True) != "fenced"
        body = encode(_Payload(end=end))
        return cast(int, await self._run("finish", job_id, worker, attempt, seq, body)) == 1

    async def release(self, worker: str, job_id: str, attempt: int, *, counts: bool) -> str:
        """Gives a job back unanswered: its engine died (`counts` as a try) or never saw it.

        Returns:
            requeued | failed (its client had seen a part, or no try was left) | cancelled | fenced
        """
        fate = await self._run(
            "release",
            job_id,
            worker,
            attempt,
            self._settings.max_attempts,
            _LOST,
            _EXHAUSTED,
            int(counts),
        )
        return cast(bytes, fate).decode()

    async def worker_leave(self, worker: str) -> None:
        await self._run("worker_leave", worker, self._settings.max_attempts, _LOST, _EXHAUSTED)

    async def _read(self, stream: str, after: str) -> tuple[str, list[dict[bytes, bytes]]]:
        key, block_ms = self._prefix + stream, int(BLOCK_S * 1000)
        async with self._connections.limit(block_s=BLOCK_S):
            found: Any = await self._connections.blocking.xread({key: after}, block=block_ms)
        if not found:
            return after, []
        entries = found[0][1]
        return entries[-1][0].decode(), [fields for _, fields in entries]


def _reply(fields: dict[bytes, bytes]) -> Reply:
    try:
        payload = _decode_payload(fields[b"body"])
    except msgspec.DecodeError:  # from a worker of another version
        problem = Problem(ErrorCode.INTERNAL_ERROR, "A worker sent what this gateway cannot read.")
        payload = _Payload(end=End(outcome=Outcome.FAILED, problem=problem))
    return Reply(
        job_id=fields[b"job"].decode(),
        worker=fields[b"worker"].decode(),
        attempt=int(fields[b"attempt"]),
        seq=int(fields[b"seq"]),
        block=payload.block,
        end=payload.end,
    )


def _command(fields: dict[bytes, bytes]) -> Command | None:
    if fields[b"kind"] == b"cancel":
        return Cancel(fields[b"job"].decode())
    try:
        return Claim(_decode_job(fields[b"body"]), int(fields[b"attempt"]))
    except msgspec.DecodeError:  # from a gateway of another version
        return None


def _queue_full(pool: str, waiting: int, interval_ms: int) -> Problem:
    """Retry-After is the time in which the jobs now waiting will have ended, at the pace measured."""
    seconds = math.ceil((waiting + 1) * interval_ms / 1000)
    return Problem(
        ErrorCode.QUEUE_FULL,
        f"The queue of {pool!r} is full: {waiting} requests wait already.",
        retry_after_s=min(max(seconds, 1), RETRY_AFTER_CAP_S),
    )
