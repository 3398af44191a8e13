"""Prometheus metrics of one gateway. Times are seconds."""

from __future__ import annotations

import sys
import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from dllm_stack.keys import KeyRing
from dllm_stack.messages import End

REQUEST_BUCKETS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1, 2, 5, 10, 20, 30, 60, 120, 300, 600),
)
TOKEN_BUCKETS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
CHUNK_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
CHUNK_TOKEN_BUCKETS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 128, 256)


OTHER = "other"  # a label's value in place of those that may be too many
MOST_TENANTS = 1000  # with series of their own


class Metrics:
    """`model` is a pool of the registry, or "other", so that clients cannot add series."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "dllm_requests",
            "Requests by how they ended; code is empty for those completed or cancelled.",
            ("endpoint", "model", "outcome", "code"),
            registry=self.registry,
        )
        self.open_requests = Gauge(
            "dllm_open_requests",
            "Requests without a complete answer yet.",
            ("endpoint",),
            registry=self.registry,
        )
        blocks = Gauge(
            "dllm_allocated_blocks",
            "Memory blocks in use: unlike the resident memory they go back to what they were.",
            registry=self.registry,
        )
        blocks.set_function(sys.getallocatedblocks)
        self.request_seconds = Histogram(
            "dllm_request_seconds",
            "From a request's arrival to the last byte of its answer.",
            ("endpoint", "model", "outcome"),
            buckets=REQUEST_BUCKETS,
            registry=self.registry,
        )
        self.time_to_first_token = self._of_model(
            "dllm_time_to_first_token_seconds",
            "From a request's arrival to its first committed block.",
            REQUEST_BUCKETS,
        )
        self.inter_token_latency = self._of_model(
            "dllm_inter_token_latency_seconds",
            "Time between tokens: k tokens that come together after d seconds count as k times d/k.",
            TOKEN_BUCKETS,
        )
        self.time_per_output_token = self._of_model(
            "dllm_time_per_output_token_seconds",
            "Time from the first block to the last, divided by the tokens after the first one.",
            TOKEN_BUCKETS,
        )
        self.inter_chunk = self._of_model(
            "dllm_inter_chunk_seconds", "Time between two blocks of an answer.", CHUNK_BUCKETS
        )
        self.chunk_tokens = self._of_model("dllm_chunk_tokens", "Tokens of one block.", CHUNK_TOKEN_BUCKETS)
        self.refused_access = Counter(
            "dllm_access_refused",
            "Requests refused for their API key, or for what its tenant may do, by why.",
            ("reason",),
            registry=self.registry,
        )
        self._tenant_requests = Counter(
            "dllm_tenant_requests",
            "Requests by whose key they came with, and by how they ended.",
            ("tenant", "outcome"),
            registry=self.registry,
        )
        self._tenant_tokens = Counter(
            "dllm_tenant_tokens",
            "Tokens of their prompts and answers, as limits count them.",
            ("tenant",),
            registry=self.registry,
        )
        self._tenants: set[str] = set()
        self._keys = self._of_keys("dllm_access_keys", "API keys known that open something.")
        self._lost_keys = self._of_keys(
            "dllm_access_keys_lost",
            "Those of them that Redis has lost: a new gateway does not know them.",
        )
        self._keys_age = self._of_keys(
            "dllm_access_age_seconds", "Since the API keys known were last seen to be those there are."
        )
        self._keys_broken = self._of_keys(
            "dllm_access_file_broken", "1: the key file cannot be used, and what it said before goes on."
        )

    def watch(self, ring: KeyRing) -> None:
        """Tells of API keys from now on."""
        self._keys.set_function(lambda: ring.directory.open_keys(time.time()))
        self._lost_keys.set_function(lambda: ring.source.lost)
        self._keys_age.set_function(lambda: ring.age_s)
        self._keys_broken.set_function(lambda: ring.source.broken)

    def _of_keys(self, name: str, help_text: str) -> Gauge:
        return Gauge(name, help_text, registry=self.registry)

    def _of_model(self, name: str, help_text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, help_text, ("model",), buckets=buckets, registry=self.registry)

    def count(self, endpoint: str, model: str, end: End, seconds: float) -> None:
        """Counts a request that has ended."""
        code = end.problem.code if end.problem else ""
        self.requests.labels(endpoint, model, end.outcome, code).inc()
        self.request_seconds.labels(endpoint, model, end.outcome).observe(seconds)

    def count_tenant(self, name: str, end: End, tokens: int) -> None:
        """Counts a request that has ended, for a tenant that has a key."""
        if len(self._tenants) < MOST_TENANTS:
            self._tenants.add(name)
        label = name if name in self._tenants else OTHER
        self._tenant_requests.labels(label, end.outcome).inc()
        self._tenant_tokens.labels(label).inc(tokens)


class Pace:
    """The speed of one answer, measured as its blocks arrive at the gateway."""

    def __init__(self, metrics: Metrics, model: str, started: float) -> None:
        """`started`: loop time of the request's arrival."""
        self._ttft = metrics.time_to_first_token.labels(model)
        self._itl = metrics.inter_token_latency.labels(model)
        self._tpot = metrics.time_per_output_token.labels(model)
        self._gap = metrics.inter_chunk.labels(model)
        self._chunk_tokens = metrics.chunk_tokens.labels(model)
        self._started = started
        self._first = self._last = started
        self._chunks = 0
        self._tokens = 0

    def chunk(self, tokens: int, at: float) -> None:
        if tokens == 0:
            return
        if self._chunks == 0:
            self._first = at
            self._ttft.observe(at - self._started)
        else:
            gap = at - self._last
            self._gap.observe(gap)
            for _ in range(tokens):
                self._itl.observe(gap / tokens)
        self._chunk_tokens.observe(tokens)
        self._chunks += 1
        self._tokens += tokens
        self._last = at

    def finish(self) -> None:
        if self._chunks > 1:
            self._tpot.observe((self._last - self._first) / (self._tokens - 1))
