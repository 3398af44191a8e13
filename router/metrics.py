"""What the router measures: the queue's depth, its waiting time, and what was reclaimed."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from dllm_stack.histogram import Histogram
from dllm_stack.messages import Tier
from dllm_stack.queue import Depth, Dispatched
from dllm_stack.redis_metrics import RedisMetrics

_WAIT_BUCKETS_S = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
    60,
    120,
    300,
    600,
)


_QUEUE_ENDS = ("expired", "shed", "no_worker", "worker_lost", "revoked")


class RouterMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, help: str, *labels: str) -> Gauge:
            return Gauge(name, help, ["pool", *labels], registry=registry)

        def counter(name: str, help: str, *labels: str) -> Counter:
            return Counter(name, help, ["pool", *labels], registry=registry)

        self._waiting = gauge("dllm_queue_jobs", "Jobs waiting for a slot.", "tier")
        self._bytes = gauge("dllm_queue_bytes", "Bytes of the jobs waiting.", "tier")
        self._oldest = gauge("dllm_queue_oldest_age_seconds", "Age of the oldest waiting job.", "tier")
        self._dead = gauge(
            "dllm_queue_dead_letters",
            "Jobs that lost all their workers within a day, as far as they are kept.",
        )
        self._running = gauge("dllm_pool_jobs_running", "Leases held.")
        self._slots = gauge("dllm_pool_slots", "Slots of all live workers.")
        self._workers = gauge("dllm_pool_workers", "Live workers, loading ones too.")
        self._set_aside = gauge(
            "dllm_pool_workers_set_aside",
            "Workers that failed several times in a row, and have not completed a job since.",
        )
        self._paused = gauge("dllm_pool_paused", "1: by order, no job is dispatched.")
        self._draining = gauge("dllm_pool_draining", "1: by order, no new job is taken.")
        self._wait = Histogram(
            "dllm_queue_wait_seconds",
            "From admission to dispatch; a job that came back counts again, from its admission.",
            ["pool", "tier"],
            buckets=_WAIT_BUCKETS_S,
            registry=registry,
        )
        self.reclaimed = counter(
            "dllm_queue_reclaimed_total",
            "Leases taken from dead workers, by what became of the job: requeued, failed, cancelled.",
            "fate",
        )
        self.orphans = counter("dllm_queue_orphans_total", "Jobs cancelled with their dead gateway.")
        self._ended = counter(
            "dllm_queue_ended_total",
            "Jobs that the queue itself ended: expired, shed to make room, no_worker in time, "
            "worker_lost too often, revoked by an operator.",
            "reason",
        )
        self._continued = counter(
            "dllm_queue_continued_total", "Dispatches of a job with a part of its answer made before."
        )

        self.redis = RedisMetrics(registry)
        self._waits: dict[tuple[str, Tier], Histogram] = {}

    def dispatched(self, pool: str, job: Dispatched) -> None:
        sampled = job.trace is not None and job.trace.is_sampled
        trace_id = job.trace.id if job.trace and sampled else None
        self._waits_of(pool, job.tier).add(job.waited_s, trace_id=trace_id)

    def dispatched_at_once(self, pool: str, jobs: dict[Tier, int]) -> None:
        """
        Args:
            jobs: as `PoolQueue.reclaim` gives them. They have not waited.
        """
        for tier in Tier:
            self._waits_of(pool, tier).add(0.0, jobs.get(tier, 0))

    def set_depth(self, pool: str, depth: Depth) -> None:
        for tier, of_tier in depth.tiers.items():
            self._waiting.labels(pool, tier).set(of_tier.waiting)
            self._bytes.labels(pool, tier).set(of_tier.waiting_bytes)
            self._oldest.labels(pool, tier).set(of_tier.oldest_s)
        self._dead.labels(pool).set(depth.dead_letters)
        self._running.labels(pool).set(depth.running)
        self._slots.labels(pool).set(depth.slots)
        self._workers.labels(pool).set(depth.workers)
        self._set_aside.labels(pool).set(depth.set_aside)
        self._paused.labels(pool).set(depth.paused)
        self._draining.labels(pool).set(depth.draining)

    def add_tally(self, pool: str, tally: dict[str, int]) -> None:
        """
        Args:
            tally: as `PoolQueue.reclaim` gives it.
        """
        for reason in _QUEUE_ENDS:
            self._ended.labels(pool, reason).inc(tally.get(reason, 0))
        self._continued.labels(pool).inc(tally.get("continued", 0))

    def _waits_of(self, pool: str, tier: Tier) -> Histogram:
        key = pool, tier
        if key not in self._waits:
            self._waits[key] = self._wait.labels(*key)
        return self._waits[key]
