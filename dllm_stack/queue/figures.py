"""What the queue answers to those who ask."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from dllm_stack.messages import Tier, Trace, WorkerCard

UNREADABLE = "unreadable"


class Dispatched(msgspec.Struct, frozen=True):
    job_id: str
    tier: Tier
    worker: str
    attempt: int
    waited_s: float
    committed: int  # tokens of the answer that an earlier attempt has made
    request_id: str
    trace: Trace | None  # without a state, which only the job has


class Reclaimed(msgspec.Struct, frozen=True):
    """
    Attributes:
        fates: for each dead worker, what became of its jobs: requeued | failed | cancelled.
        orphans: jobs cancelled because their gateway is dead.
        more: there was more to do than one call does.
        at_once: how many jobs of each tier, since somebody last asked, went to a slot as they were admitted.
        tally: how many jobs, since somebody last asked, the queue itself ended (expired | shed | no_worker |
            worker_lost | revoked), and how many were dispatched with a part of their answer made (continued).
    """

    fates: dict[str, list[str]] = {}
    orphans: int = 0
    more: bool = False
    at_once: dict[Tier, int] = {}
    tally: dict[str, int] = {}


class TierDepth(msgspec.Struct, frozen=True):
    waiting: int
    waiting_bytes: int
    oldest_s: float


class Depth(msgspec.Struct, frozen=True):
    waiting: int
    waiting_bytes: int
    oldest_s: float
    running: int
    slots: int
    workers: int  # live ones, loading ones too
    set_aside: int  # workers that failed too often, and have not completed a job since
    dead_letters: int
    paused: bool  # no job is dispatched
    draining: bool  # no new job is taken
    tiers: dict[Tier, TierDepth]


class Position(NamedTuple):
    """Where a job waits, by priority class and arrival: fair sharing may serve it sooner or later."""

    place: int  # 1: the first
    waiting: int  # jobs in all


class Committal(NamedTuple):
    """What became of a committed block.

    Attributes:
        wanted: False: the job is not this worker's any more, or nobody waits for it. Stop the engine, then
            `finish`.
        tokens: how many of the answer's tokens the queue holds now. Fewer than with the block: Redis has
            lost some, and they are to be sent again from there.
    """

    wanted: bool
    tokens: int


class WorkerStatus(msgspec.Struct, frozen=True):
    card: WorkerCard  # its `state` is UNREADABLE if the worker is of another version
    running: int
    load: int  # estimated tokens of the jobs it runs
    failures: int  # in a row
    set_aside_until: float | None  # Unix seconds; once past, it gets one job at a time until one completes
    draining: bool  # by `drain_worker`
    paused: bool  # by `pause_worker`


class TenantStatus(msgspec.Struct, frozen=True):
    tenant: str
    waiting: int
    waiting_bytes: int
    running: int


class JobStatus(msgspec.Struct, frozen=True):
    id: str
    tenant: str
    tier: Tier
    state: str  # waiting | running
    age_s: float  # since admission
    attempt: int
    worker: str | None
    estimate: int  # tokens, prompt and answer
    committed: int  # tokens of the answer
    bytes: int
    gateway: str
    cancelled: bool  # its worker has been told to stop
    deadline: float | None  # Unix seconds


class DeadLetter(msgspec.Struct, frozen=True):
    job_id: str
    tenant: str
    reason: str
    attempts: int
    at: float  # Unix seconds
    kept: bool  # its request; if not, that was too large
