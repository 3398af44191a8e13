"""What a service measures of its Redis. Times are seconds."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from dllm_stack.histogram import Histogram

BUCKETS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


class RedisMetrics:
    """`command` is a script of ours, or what a group of plain commands is for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "dllm_redis_seconds",
            "From a call of Redis to its answer, waiting for a connection included; blocking reads left out.",
            ("command",),
            buckets=BUCKETS,
            registry=registry,
        )
        self._errors = Counter(
            "dllm_redis_errors_total",
            "Calls of Redis that failed, or had no answer in time.",
            ("command",),
            registry=registry,
        )
        self._of: dict[str, Histogram] = {}

    def answered(self, command: str, seconds: float) -> None:
        if command not in self._of:
            self._of[command] = self._seconds.labels(command)
            self._errors.labels(command)  # so that Prometheus sees it increase from 0
        self._of[command].add(seconds)

    def failed(self, command: str) -> None:
        self._errors.labels(command).inc()
