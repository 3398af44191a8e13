"""What the worker measures, all of it labelled with the pool, of which a worker has one."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dllm_stack.messages import Work

STEP_BUCKETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
RATE_BUCKETS = (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)


class WorkerMetrics:
    def __init__(self, registry: CollectorRegistry, pool: str) -> None:
        def gauge(name: str, about: str) -> Gauge:
            return Gauge(name, about, ["pool"], registry=registry).labels(pool)

        def counter(name: str, about: str) -> Counter:
            return Counter(name, about, ["pool"], registry=registry).labels(pool)

        def histogram(name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, about, ["pool"], buckets=buckets, registry=registry).labels(pool)

        self.slots = gauge(
            "dllm_engine_slots", "Requests the engine may run at once; 0 while it loads or drains."
        )
        self.busy = gauge("dllm_engine_slots_busy", "Jobs that hold a slot now.")
        self.load_seconds = gauge(
            "dllm_engine_load_seconds", "From the engine's last start to its readiness, warm-up included."
        )
        self.prefill_fallback = gauge(
            "dllm_engine_prefill_fallback",
            "1: the engine computes prompts one block a round, though more was asked for; the log has why.",
        )
        self.restarts = counter("dllm_engine_restarts_total", "Starts of the engine after its first.")
        self._blocks = counter("dllm_engine_committed_blocks_total", "Committed blocks sent to gateways.")
        self._tokens = counter("dllm_engine_committed_tokens_total", "Tokens in the committed blocks sent.")
        self._forwards = counter(
            "dllm_engine_forwards_total",
            "Forwards of the blocks sent, each counted for every request in it; those of prompts left out.",
        )
        self._edits = counter(
            "dllm_engine_edits_total", "Tokens replaced after they had been committed, in the blocks sent."
        )
        self._tokens_per_forward = histogram(
            "dllm_engine_tokens_per_forward", "Tokens of a committed block by its forwards.", RATE_BUCKETS
        )
        self._steps_per_block = histogram(
            "dllm_engine_steps_per_block",
            "Denoise steps of a committed block: forwards that committed or replaced a token.",
            STEP_BUCKETS,
        )
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

    def committed(self, tokens: int, work: Work) -> None:
        """Counts a block that is sent. An engine that does not tell its work has no figures of it."""
        self._blocks.inc()
        self._tokens.inc(tokens)
        if work.forwards:
            self._forwards.inc(work.forwards)
            self._edits.inc(work.edits)
            self._tokens_per_forward.observe(tokens / work.forwards)
            self._steps_per_block.observe(work.steps)

    def ran(self, outcome: str) -> None:
        self._runs.labels(self._pool, outcome).inc()
