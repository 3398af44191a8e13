"""What the worker measures. A worker has one pool and one hardware profile, and both label all of it. Times
are seconds."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from dllm_stack.histogram import Histogram
from dllm_stack.messages import Took, Work
from dllm_stack.redis_metrics import RedisMetrics

STEP_BUCKETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
RATE_BUCKETS = (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
TIME_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)

ATTACHED = "attached"  # the profile of an engine that somebody else has started

_RUNS = ("completed", "rejected", "failed", "cancelled", "requeued", "fenced")


class WorkerMetrics:
    def __init__(self, registry: CollectorRegistry, pool: str, profile: str = ATTACHED) -> None:
        labels, values = ("pool", "profile"), (pool, profile)

        def gauge(name: str, about: str) -> Gauge:
            return Gauge(name, about, labels, registry=registry).labels(*values)

        def counter(name: str, about: str) -> Counter:
            return Counter(name, about, labels, registry=registry).labels(*values)

        def histogram(name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, about, labels, buckets=buckets, registry=registry).labels(*values)

        self._info = Gauge(
            "dllm_engine_info",
            "1: what the engine is that runs, or ran last.",
            (*labels, "algorithm", "attention_backend"),
            registry=registry,
        )

        self._gpus = gauge("dllm_engine_gpus", "GPUs that the engine computes on.")
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
        self.silence = gauge(
            "dllm_engine_silent_seconds",
            "Since the engine last gave a sign of life, while a job runs on it; 0 while none does.",
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
        self._prompt_seconds = histogram(
            "dllm_worker_prompt_seconds",
            "From a job's claim until its engine is asked: rendering and tokenizing.",
            TIME_BUCKETS,
        )
        self._first_block_seconds = histogram(
            "dllm_engine_first_block_seconds",
            "From the question to the engine to its first committed block.",
            TIME_BUCKETS,
        )
        self._block_seconds = histogram(
            "dllm_engine_block_seconds", "Time between two blocks of an answer at the engine.", TIME_BUCKETS
        )
        self.prompt_tokens = counter(
            "dllm_engine_prompt_tokens_total", "Prompt tokens of the answers completed."
        )
        self.cached_tokens = counter(
            "dllm_engine_cached_prompt_tokens_total",
            "Those of the prompt tokens that were found in the engine's prefix cache.",
        )
        self._labels = values
        self._runs = Counter(
            "dllm_worker_runs_total",
            "Attempts that ended here, by how: completed, rejected, failed, cancelled, requeued, or fenced "
            "(the queue had already given the job to another worker).",
            (*labels, "outcome"),
            registry=registry,
        )
        for outcome in _RUNS:  # so that Prometheus sees each increase from 0
            self._runs.labels(*values, outcome)
        self.redis = RedisMetrics(registry)

    def committed(self, tokens: int, work: Work) -> None:
        """Counts a block that is sent. An engine that does not tell its work has no figures of it."""
        self._blocks.inc()
        self._tokens.inc(tokens)
        if work.forwards:
            self._forwards.inc(work.forwards)
            self._edits.inc(work.edits)
            self._tokens_per_forward.observe(tokens / work.forwards)
            self._steps_per_block.observe(work.steps)

    def began(self, took: Took) -> None:
        """An attempt's first block has come."""
        self._prompt_seconds.add(took.prompt_s)
        self._first_block_seconds.add(took.engine_s)

    def went_on(self, seconds: float) -> None:
        """A further block has come."""
        self._block_seconds.add(seconds)

    def is_engine(self, algorithm: str | None, attention_backend: str | None, gpus: int) -> None:
        """What the engine is that has come up."""
        self._info.clear()
        self._info.labels(*self._labels, algorithm or "", attention_backend or "").set(1)
        self._gpus.set(gpus)

    def ran(self, outcome: str) -> None:
        self._runs.labels(*self._labels, outcome).inc()
