"""What the worker measures, all of it labelled with the pool, of which a worker has one."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class WorkerMetrics:
    def __init__(self, registry: CollectorRegistry, pool: str) -> None:
        def gauge(name: str, about: str) -> Gauge:
            return Gauge(name, about, ["pool"], registry=registry).labels(pool)

        def counter(name: str, about: str) -> Counter:
            return Counter(name, about, ["pool"], registry=registry).labels(pool)

        self.slots = gauge(
            "dllm_engine_slots", "Requests the engine may run at once; 0 while it loads or drains."
        )
        self.busy = gauge("dllm_engine_slots_busy", "Jobs that hold a slot now.")
        self.load_seconds = gauge(
            "dllm_engine_load_seconds", "From the engine's last start to its readiness, warm-up included."
        )
        self.restarts = counter("dllm_engine_restarts_total", "Starts of the engine after its first.")
        self.blocks = counter("dllm_engine_committed_blocks_total", "Committed blocks sent to gateways.")
        self.tokens = counter("dllm_engine_committed_tokens_total", "Tokens in the committed blocks sent.")
        self.prompt_tokens = counter(
            "dllm_engine_prompt_tokens_total", "Prompt tokens of the answers completed."
        )
        self.cached_tokens = counter(
            "dllm_engine_cached_prompt_tokens_total",
            "Those of the prompt tokens that were found in the engine's prefix cache.",
        )
        self._pool = pool
        self._runs = Counter(
            "dllm_worker_runs_total",
            "Attempts that ended here, by how: completed, rejected, failed, cancelled, requeued, or fenced "
            "(the queue had already given the job to another worker).",
            ["pool", "outcome"],
            registry=registry,
        )

    def ran(self, outcome: str) -> None:
        self._runs.labels(self._pool, outcome).inc()
