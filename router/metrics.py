"""What the router measures: the queue's depth, its waiting time, and what was reclaimed."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dllm_stack.queue import Depth

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


class RouterMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._waiting = Gauge("dllm_queue_jobs", "Jobs waiting for a slot.", ["pool"], registry=registry)
        self._bytes = Gauge("dllm_queue_bytes", "Bytes of the jobs waiting.", ["pool"], registry=registry)
        self._oldest = Gauge(
            "dllm_queue_oldest_age_seconds", "Age of the oldest waiting job.", ["pool"], registry=registry
        )
        self._running = Gauge("dllm_pool_jobs_running", "Leases held.", ["pool"], registry=registry)
        self._slots = Gauge("dllm_pool_slots", "Slots of all live workers.", ["pool"], registry=registry)
        self._workers = Gauge(
            "dllm_pool_workers", "Live workers, loading ones too.", ["pool"], registry=registry
        )
        self.wait = Histogram(
            "dllm_queue_wait_seconds",
            "From admission to dispatch; a job that came back counts again, from its admission.",
            ["pool"],
            buckets=_WAIT_BUCKETS_S,
            registry=registry,
        )
        self.reclaimed = Counter(
            "dllm_queue_reclaimed_total",
            "Leases taken from dead workers, by what became of the job: requeued, failed, cancelled.",
            ["pool", "fate"],
            registry=registry,
        )
        self.orphans = Counter(
            "dllm_queue_orphans_total", "Jobs cancelled with their dead gateway.", ["pool"], registry=registry
        )

    def set_depth(self, pool: str, depth: Depth) -> None:
        self._waiting.labels(pool).set(depth.waiting)
        self._bytes.labels(pool).set(depth.waiting_bytes)
        self._oldest.labels(pool).set(depth.oldest_s)
        self._running.labels(pool).set(depth.running)
        self._slots.labels(pool).set(depth.slots)
        self._workers.labels(pool).set(depth.workers)
