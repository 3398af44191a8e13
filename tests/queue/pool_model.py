"""What the queue of a pool is to do, in plain Python: the reference for its scripts.

Time passes only when the test says so; the settings are the test's. A worker is not predicted, only
whether the one chosen may have the job.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from dllm_stack.messages import Cancel, Claim, Committed, Job, Place, Tier, encode
from dllm_stack.queue import Dispatched
from dllm_stack.queue.estimate import estimate, prompt_bytes
from dllm_stack.queue.script import (
    AGED_SHARE,
    BLOCK_TOKENS,
    BREAKER_CAP_S,
    DISPATCH_AT_MOST,
    HOLDERS_AT_MOST,
)
from dllm_stack.settings import Bounds, QueueSettings, TenantSettings

Told = tuple[str, str, int, Place, str]  # job, worker, attempt, place, and: block | outcome


@dataclass
class ModelJob:
    job: Job
    order: int
    admitted_at: float
    attempt: int = 0
    tries: int = 0
    token_ids: list[int] = field(default_factory=list)
    characters: int = 0
    worker: str | None = None
    dispatched: int = 0  # counts dispatches
    cancelled: bool = False
    begun: int = 0  # tokens there when the lease began
    failed_on: str | None = None

    @property
    def place(self) -> Place:
        return Place(len(self.token_ids), self.characters)

    @property
    def estimate(self) -> int:
        return estimate(self.job, prompt_bytes(self.job.prompt)).total

    @property
    def made(self) -> int:
        """Tokens of the lease: of the prompt and those committed."""
        prompt = estimate(self.job, prompt_bytes(self.job.prompt)).prompt
        return prompt + len(self.token_ids) - self.begun

    @property
    def charged(self) -> int:
        return max(self.estimate, self.made)

    def expired(self, now: float) -> bool:
        timeout_s = self.job.timeout_s
        return timeout_s is not None and now >= self.admitted_at + timeout_s and not self.cancelled


@dataclass
class ModelWorker:
    slots: int = 0
    failures: int = 0
    trips: int = 0
    set_aside_until: float | None = None
    commands: list[Claim | Cancel] = field(default_factory=list)


@dataclass
class Shares:
    """Virtual time between the tenants of a tier."""

    now: float = 0
    ready: dict[str, float] = field(default_factory=dict)
    ahead: dict[str, float] = field(default_factory=dict)  # those not ready

    def settle(self, may_run: set[str]) -> None:
        for tenant in may_run - self.ready.keys():
            self.ready[tenant] = max(self.now, self.ahead.pop(tenant, 0))
        for tenant in self.ready.keys() - may_run:
            if (tag := self.ready.pop(tenant)) > self.now:
                self.ahead[tenant] = tag

    def charge(self, tenant: str, by: float) -> None:
        for tags in (self.ready, self.ahead):
            if tenant in tags:
                tags[tenant] += by
                return
        if by > 0:
            self.ahead[tenant] = self.now + by

    def first(self) -> str | None:
        return min(self.ready, key=lambda tenant: (self.ready[tenant], tenant), default=None)

    def serve(self, tenant: str, by: float) -> None:
        self.now = max(self.now, self.ready[tenant])
        self.ready[tenant] += by
        self.ahead = {tenant: tag for tenant, tag in self.ahead.items() if tag > self.now}


class Model:
    def __init__(self, settings: QueueSettings, gateways: tuple[str, ...]) -> None:
        self.settings = settings
        self.now = 0.0
        self.jobs: dict[str, ModelJob] = {}  # open ones
        self.workers: dict[str, ModelWorker] = {}  # live ones
        self.drained: set[str] = set()
        self.paused_workers: set[str] = set()
        self.paused = self.draining = False
        self.told: dict[str, list[Told]] = {gateway: [] for gateway in gateways}
        self.tally: Counter[str] = Counter()
        self.at_once: Counter[Tier] = Counter()
        self.dead: list[str] = []
        self.leases: list[tuple[str, str, int]] = []  # all there ever were
        self.admitted = self.dispatches = 0
        self.start_anew()

    def start_anew(self) -> None:
        self.turn = 0
        self.shares = {tier: Shares() for tier in Tier}

    # Who waits and who runs

    def waiting(self, tier: Tier | None = None, tenant: str | None = None) -> list[ModelJob]:
        found = [
            job
            for job in self.jobs.values()
            if job.worker is None and tier in (None, job.job.tier) and tenant in (None, job.job.tenant)
        ]
        return sorted(found, key=lambda job: job.order)

    def running(self, worker: str | None = None, tenant: str | None = None) -> list[ModelJob]:
        found = [
            job
            for job in self.jobs.values()
            if job.worker is not None and worker in (None, job.worker) and tenant in (None, job.job.tenant)
        ]
        return sorted(found, key=lambda job: job.dispatched)

    def tenant(self, job: Job) -> TenantSettings:
        return self.settings.tenants.get(job.tenant, TenantSettings())

    def settle(self) -> None:
        for tier, shares in self.shares.items():
            may_run = set()
            for waiting in self.waiting(tier):
                limit = self.tenant(waiting.job).max_running
                if limit is None or len(self.running(tenant=waiting.job.tenant)) < limit:
                    may_run.add(waiting.job.tenant)
            shares.settle(may_run)

    # Admission

    def admit(self, job: Job, at_once: list[Dispatched]) -> bool:
        """
        Args:
            at_once: what the queue says that has gone to a slot with it.
        """
        if self.draining:
            return False
        size = len(encode(job))
        own = self.tenant(job)
        if not self._fits(self.waiting(tenant=job.tenant), size, own):
            return False
        tier_has_room = self._fits(self.waiting(job.tier), size, self.settings.tiers.get(job.tier, Bounds()))
        if not tier_has_room or not self._fits(self.waiting(), size, self.settings):
            victims = None
            if tier_has_room and job.tier is not Tier.FLEX:
                victims = self._making_room(job, size, self.waiting(Tier.FLEX)[::-1])
            if victims is None:
                victims = self._of_largest(job, size, in_pool=tier_has_room)
            if victims is None:
                return False
            for victim in victims:
                self.end_by_queue(victim, "shed", "rejected")
        self._enter(job, ModelJob(job, 0, self.now), at_once)
        return True

    def readmit(self, old: ModelJob, attempts: int, at_once: list[Dispatched]) -> None:
        new = ModelJob(
            old.job,
            0,
            self.now,
            attempt=attempts,
            token_ids=list(old.token_ids),
            characters=old.characters,
        )
        self._enter(old.job, new, at_once)

    def _enter(self, job: Job, new: ModelJob, at_once: list[Dispatched]) -> None:
        others_are_ready = any(shares.ready for shares in self.shares.values())
        self.admitted += 1
        new.order = self.admitted
        self.jobs[job.id] = new
        self.settle()
        if others_are_ready:
            assert at_once == []
        else:
            self.dispatch(at_once, at_most=1)
            self.at_once[job.tier] += len(at_once)

    def _fits(self, waiting: list[ModelJob], size: int, bounds: Bounds | QueueSettings) -> bool:
        jobs, most_bytes = bounds.max_waiting_jobs, bounds.max_waiting_bytes
        held = sum(len(encode(other.job)) for other in waiting)
        return (jobs is None or len(waiting) < jobs) and (most_bytes is None or held + size <= most_bytes)

    def _of_largest(self, job: Job, size: int, *, in_pool: bool) -> list[ModelJob] | None:
        """Jobs of the tenant that has most of what there is too much of, while it has more than this one's
        would, those of the lowest tier first."""
        scope = None if in_pool else job.tier
        all_tiers = list(Tier)[::-1]
        tiers = all_tiers[: all_tiers.index(job.tier) + 1] if in_pool else [job.tier]
        most = [self.settings.max_waiting_jobs]
        if not in_pool:
            most.append(self.settings.tiers.get(job.tier, Bounds()).max_waiting_jobs or most[0])
        by_jobs = len(self.waiting()) >= most[0] or (not in_pool and len(self.waiting(scope)) >= most[-1])

        def cost(other: Job) -> int:
            return 1 if by_jobs else len(encode(other))

        def held(tenant: str) -> int:
            return sum(cost(other.job) for other in self.waiting(scope, tenant))

        tenants = {other.job.tenant for other in self.waiting(scope)}
        mine = held(job.tenant) + (1 if by_jobs else size)
        for tenant in sorted(tenants, key=lambda tenant: (held(tenant), tenant), reverse=True)[
            :HOLDERS_AT_MOST
        ]:
            spare, line = held(tenant) - mine, []
            for other in [other for tier in tiers for other in self.waiting(tier, tenant)[::-1]]:
                if spare <= 0:
                    break
                if not other.token_ids:
                    spare -= cost(other.job)
                line.append(other)
            if (victims := self._making_room(job, size, line)) is not None:
                return victims
        return None

    def _making_room(self, job: Job, size: int, line: list[ModelJob]) -> list[ModelJob] | None:
        victims: list[ModelJob] = []
        for victim in line:
            if victim.token_ids:
                continue
            victims.append(victim)
            rest = [other for other in self.waiting() if other not in victims]
            in_tier = [other for other in rest if other.job.tier is job.tier]
            tier = self.settings.tiers.get(job.tier, Bounds())
            if self._fits(rest, size, self.settings) and self._fits(in_tier, size, tier):
                return victims
        return None

    # Dispatch

    def dispatch(self, found: list[Dispatched], at_most: int = DISPATCH_AT_MOST) -> None:
        """Asserts that what the queue has done is what it should have."""
        expected = iter(found)
        for _ in range(at_most):
            if self.paused or not any(self.free(worker) > 0 for worker in self.workers):
                break
            if (job := self._next()) is None:
                break
            if job.expired(self.now):
                self.end_by_queue(job, "expired", "expired")
                continue
            d = next(expected)
            assert d.job_id == job.job.id
            assert self.free(d.worker) > 0
            others = [worker for worker in self.workers if self.free(worker) > 0 and worker != job.failed_on]
            assert d.worker in others or others == []
            assert d.committed == len(job.token_ids)
            self._start(job, d.worker)
            assert d.attempt == job.attempt
        assert list(expected) == []

    def free(self, worker: str) -> int:
        w = self.workers[worker]
        slots = 0 if worker in self.drained | self.paused_workers else w.slots
        if w.set_aside_until is not None:
            slots = 0 if self.now < w.set_aside_until else min(slots, 1)
        return slots - len(self.running(worker))

    def _next(self) -> ModelJob | None:
        turn = self.turn + 1
        tiers = list(Tier)
        if turn % AGED_SHARE == 0:
            lower = [Tier.FLEX, Tier.DEFAULT] if turn // AGED_SHARE % 2 == 0 else [Tier.DEFAULT, Tier.FLEX]
            tiers = [tier for tier in lower if self._has_aged(tier)] + tiers
        for tier in tiers:
            if (tenant := self.shares[tier].first()) is not None:
                return self.waiting(tier, tenant)[0]
        return None

    def _has_aged(self, tier: Tier) -> bool:
        waiting = self.waiting(tier)
        return bool(waiting) and self.now - waiting[0].admitted_at > self.settings.ageing_s

    def _start(self, job: ModelJob, worker: str) -> None:
        self.turn += 1
        self.dispatches += 1
        self.shares[job.job.tier].serve(job.job.tenant, job.estimate / self.tenant(job.job).weight)
        if job.token_ids:
            self.tally["continued"] += 1
        job.attempt, job.tries, job.worker = job.attempt + 1, job.tries + 1, worker
        job.begun = len(job.token_ids)
        job.dispatched = self.dispatches
        committed = Committed(token_ids=list(job.token_ids), characters=job.characters)
        self.workers[worker].commands.append(Claim(job.job, job.attempt, committed))
        self.leases.append((job.job.id, worker, job.attempt))
        self.settle()

    # Ends

    def tell(self, job: ModelJob, worker: str, attempt: int, place: Place, what: str) -> None:
        self.told[job.job.gateway].append((job.job.id, worker, attempt, place, what))

    def end_by_queue(self, job: ModelJob, reason: str, outcome: str) -> None:
        self.tell(job, "", job.attempt + 1, job.place, outcome)
        self.tally[reason] += 1
        self.forget(job)

    def forget(self, job: ModelJob) -> None:
        del self.jobs[job.job.id]
        self.settle()
        if not self.jobs:
            self.start_anew()

    def end_lease(self, job: ModelJob, used: int) -> None:
        self.charge(job, used - job.charged)

    def charge(self, job: ModelJob, tokens: int) -> None:
        shares = self.shares[job.job.tier]
        shares.charge(job.job.tenant, tokens / self.tenant(job.job).weight)

    def commit(self, job: ModelJob, token_ids: list[int], characters: int) -> None:
        before = job.charged
        job.token_ids += token_ids
        job.characters = characters
        self.charge(job, job.charged - before)

    def finish(self, job: ModelJob, used: int) -> None:
        self.end_lease(job, max(used - job.begun, job.made + BLOCK_TOKENS))
        self.forget(job)

    def give_back(self, job: ModelJob, *, counts: bool) -> str:
        unseen = not counts and len(job.token_ids) == job.begun
        self.end_lease(job, 0 if unseen else job.made + BLOCK_TOKENS)
        if job.cancelled:
            self.forget(job)
            return "cancelled"
        if counts:
            job.failed_on = job.worker
        job.worker = None
        job.tries -= not counts
        if job.tries >= self.settings.max_attempts:
            self.dead.append(job.job.id)
            self.end_by_queue(job, "worker_lost", "failed")
            return "failed"
        self.settle()
        return "requeued"

    def cancel(self, job: ModelJob) -> None:
        if job.worker is None:
            self.forget(job)
        elif not job.cancelled:
            self.stop_worker(job)

    def stop_worker(self, job: ModelJob) -> None:
        assert job.worker is not None
        job.cancelled = True
        self.workers[job.worker].commands.append(Cancel(job.job.id, job.attempt))

    def call_off(self, job: ModelJob, reason: str, outcome: str) -> None:
        if job.cancelled:
            return
        if job.worker is None:
            self.end_by_queue(job, reason, outcome)
        else:
            self.tell(job, "", job.attempt + 1, job.place, outcome)
            self.tally[reason] += 1
            self.stop_worker(job)

    def expire(self) -> None:
        for job in sorted(self.jobs.values(), key=lambda job: job.order):
            if job.expired(self.now):
                self.call_off(job, "expired", "expired")

    # Orders

    def order(self, what: str) -> None:
        match what:
            case "pause":
                self.paused = True
            case "drain":
                self.paused, self.draining = False, True
            case "resume":
                self.paused = self.draining = False

    def order_worker(self, what: str, worker: str) -> None:
        match what:
            case "pause":
                self.paused_workers.add(worker)
            case "drain":
                self.drained.add(worker)
            case "resume":
                self.paused_workers.discard(worker)

    def forget_orders(self) -> None:
        self.order("resume")
        self.drained.clear()
        self.paused_workers.clear()

    # Workers

    def worker(self, name: str) -> ModelWorker:
        return self.workers.setdefault(name, ModelWorker())

    def worker_failed(self, worker: str) -> None:
        w = self.workers[worker]
        w.failures += 1
        on_trial = w.set_aside_until is not None and self.now >= w.set_aside_until
        if on_trial or (w.set_aside_until is None and w.failures >= self.settings.breaker_failures):
            pause = min(self.settings.breaker_s * math.pow(2, w.trips), BREAKER_CAP_S)
            w.trips += 1
            w.set_aside_until = self.now + pause

    def worker_succeeded(self, worker: str) -> None:
        w = self.workers[worker]
        w.failures, w.trips, w.set_aside_until = 0, 0, None

    def worker_gone(self, worker: str, *, counts: bool) -> list[str]:
        fates = [self.give_back(job, counts=counts) for job in self.running(worker)]
        self.workers.pop(worker, None)
        if not counts:
            self.drained.discard(worker)
            self.paused_workers.discard(worker)
        return fates
