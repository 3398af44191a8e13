"""Prometheus metrics of one gateway. Times are seconds."""

from __future__ import annotations

import sys
import time
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector

from dllm_stack.histogram import Histogram
from dllm_stack.keys import KeyRing, Refusal
from dllm_stack.messages import End, Tier
from dllm_stack.outcomes import KINDS, ErrorCode, Outcome
from dllm_stack.redis_metrics import RedisMetrics

REQUEST_BUCKETS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1, 2, 5, 10, 20, 30, 60, 120, 300, 600),
)
TOKEN_BUCKETS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
CHUNK_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
CHUNK_TOKEN_BUCKETS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 128, 256)

PARTS = ("admission", "queue", "dispatch", "prompt", "engine", "relay")
"""Of a time to first token, in their order; see docs/metrics.md."""

OTHER = "other"  # a label's value in place of those that may be too many
MOST_TENANTS = 1000  # with series of their own


GENERATING = ("chat", "completions", "generate")
ENDPOINTS = (*GENERATING, "tokenize", "detokenize")
_UNADMITTED: tuple[tuple[Outcome, ErrorCode], ...] = (
    (Outcome.REJECTED, ErrorCode.SHUTTING_DOWN),
    (Outcome.REJECTED, ErrorCode.GATEWAY_FULL),
    (Outcome.REJECTED, ErrorCode.QUEUE_UNAVAILABLE),
    (Outcome.EXPIRED, ErrorCode.DEADLINE_EXCEEDED),
    (Outcome.FAILED, ErrorCode.INTERNAL_ERROR),
    (Outcome.FAILED, ErrorCode.SHUTTING_DOWN),
)
"""How a request may fail for the stack's reasons before anybody knows what it is for."""
_ADMITTED: tuple[tuple[Outcome, ErrorCode | None], ...] = (
    (Outcome.COMPLETED, None),
    (Outcome.CANCELLED, None),
    (Outcome.FAILED, ErrorCode.QUEUE_UNAVAILABLE),
    (Outcome.FAILED, ErrorCode.SHUTTING_DOWN),
    *(
        (KINDS[code].outcome, code)
        for code in (
            ErrorCode.QUEUE_FULL,
            ErrorCode.RATE_LIMIT_EXCEEDED,
            ErrorCode.POOL_DRAINING,
            ErrorCode.NO_WORKER,
            ErrorCode.QUEUE_UNAVAILABLE,
            ErrorCode.WORKER_LOST,
            ErrorCode.ENGINE_ERROR,
            ErrorCode.DEADLINE_EXCEEDED,
            ErrorCode.CANCELLED,
            ErrorCode.INTERNAL_ERROR,
        )
    ),
)
"""How one may end whose model, mode and tier are known."""
_REFUSALS = (
    *("missing", "malformed", "off", *Refusal, "unavailable"),
    *("admin_key", "tenant", "no_admin_key", "tier", "model"),
)


class Kind(NamedTuple):
    """What a request is for. Clients cannot add any: see docs/metrics.md.

    Attributes:
        model: a pool of the registry, or OTHER.
        mode: of decoding; `default` and `custom` besides those of the model; empty until it is known.
        tier: empty until it is known.
    """

    model: str = OTHER
    mode: str = ""
    tier: str = ""


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "dllm_requests",
            "Requests by how they ended; code is empty for those completed or cancelled.",
            ("endpoint", *Kind._fields, "outcome", "code"),
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
            ("endpoint", "model", "tier", "outcome"),
            buckets=REQUEST_BUCKETS,
            registry=self.registry,
        )
        self.time_to_first_token = self._of_kind(
            "dllm_time_to_first_token_seconds",
            "From a request's arrival to its first committed block, about to be sent if it is streamed.",
            REQUEST_BUCKETS,
        )
        self.first_token_part = Histogram(
            "dllm_time_to_first_token_part_seconds",
            "The parts of each time to first token, which add up to it.",
            ("model", "part"),
            buckets=REQUEST_BUCKETS,
            registry=self.registry,
        )
        self.inter_token_latency = self._of_kind(
            "dllm_inter_token_latency_seconds",
            "Time between tokens: k tokens that come together after d seconds count as k times d/k.",
            TOKEN_BUCKETS,
        )
        self.time_per_output_token = self._of_kind(
            "dllm_time_per_output_token_seconds",
            "Time from the first block to the last, divided by the tokens after the first one.",
            TOKEN_BUCKETS,
        )
        self.inter_chunk = self._of_kind(
            "dllm_inter_chunk_seconds", "Time between two blocks of an answer.", CHUNK_BUCKETS
        )
        self.chunk_tokens = self._of_kind("dllm_chunk_tokens", "Tokens of one block.", CHUNK_TOKEN_BUCKETS)
        self.prompt_tokens = Counter(
            "dllm_prompt_tokens",
            "Tokens of the prompts to which there is an answer, or the beginning of one.",
            Kind._fields,
            registry=self.registry,
        )
        self.refused_access = Counter(
            "dllm_access_refused",
            "Requests refused for their API key, or for what its tenant may do, by why.",
            ("reason",),
            registry=self.registry,
        )
        for reason in _REFUSALS:
            self.refused_access.labels(reason)
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
        self._expected_tenants: set[str] = set()
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
        self.redis = RedisMetrics(self.registry)
        self._paces: dict[Kind, PaceSeries] = {}
        self._ends: dict[tuple[str, ...], EndSeries] = {}
        self._expected: set[tuple[str, Kind]] = set()
        for endpoint in ENDPOINTS:
            for outcome, code in _UNADMITTED:
                self.requests.labels(endpoint, *Kind(), outcome, code)

    def watch(self, ring: KeyRing) -> None:
        """Tells of API keys from now on."""
        self._keys.set_function(lambda: ring.directory.open_keys(time.time()))
        self._lost_keys.set_function(lambda: ring.source.lost)
        self._keys_age.set_function(lambda: ring.age_s)
        self._keys_broken.set_function(lambda: ring.source.broken)

    def _of_keys(self, name: str, help_text: str) -> Gauge:
        return Gauge(name, help_text, registry=self.registry)

    def _of_kind(self, name: str, help_text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, help_text, Kind._fields, buckets=buckets, registry=self.registry)

    def expect_model(self, model: str) -> None:
        """Requests for this one may come."""
        for endpoint in ENDPOINTS:
            mode = "default" if endpoint in GENERATING else ""
            self.expect(endpoint, Kind(model, mode, Tier.DEFAULT))

    def expect(self, endpoint: str, kind: Kind) -> None:
        """Shows 0 for the ends that there may be: of a series that began with its first one, Prometheus would
        see no increase."""
        if (endpoint, kind) in self._expected:
            return
        self._expected.add((endpoint, kind))
        for outcome, code in _ADMITTED:
            self.requests.labels(endpoint, *kind, outcome, code or "")

    def count(self, endpoint: str, kind: Kind, end: End, seconds: float, trace_id: str | None = None) -> None:
        """Counts a request that has ended."""
        code = end.problem.code if end.problem else ""
        key = (endpoint, *kind, end.outcome, code)
        series = self._ends.get(key)
        if series is None:
            series = self._ends[key] = EndSeries(
                self.requests.labels(*key),
                self.request_seconds.labels(endpoint, kind.model, kind.tier, end.outcome),
            )
        series.requests.inc()
        series.seconds.add(seconds, trace_id=trace_id)

    def pace(self, kind: Kind) -> PaceSeries:
        if kind not in self._paces:
            self._paces[kind] = PaceSeries(self, kind)
        return self._paces[kind]

    def count_tenant(self, name: str, end: End, tokens: int) -> None:
        """Counts a request that has ended, for a tenant that has a key."""
        label = self._label_of(name)
        self._tenant_requests.labels(label, end.outcome).inc()
        self._tenant_tokens.labels(label).inc(tokens)

    def expect_tenant(self, name: str) -> None:
        """As `expect`."""
        label = self._label_of(name)
        if label not in self._expected_tenants:
            self._expected_tenants.add(label)
            for outcome in Outcome:
                self._tenant_requests.labels(label, outcome)
            self._tenant_tokens.labels(label)

    def _label_of(self, tenant: str) -> str:
        if len(self._tenants) < MOST_TENANTS:
            self._tenants.add(tenant)
        return tenant if tenant in self._tenants else OTHER


class EndSeries(NamedTuple):
    requests: Counter
    seconds: Histogram


class PaceSeries:
    """What an answer of one kind is measured by, looked up once a request."""

    def __init__(self, metrics: Metrics, kind: Kind) -> None:
        self.ttft = metrics.time_to_first_token.labels(*kind)
        self.parts = [metrics.first_token_part.labels(kind.model, part) for part in PARTS]
        self.itl = metrics.inter_token_latency.labels(*kind)
        self.tpot = metrics.time_per_output_token.labels(*kind)
        self.gap = metrics.inter_chunk.labels(*kind)
        self.chunk_tokens = metrics.chunk_tokens.labels(*kind)
        self.prompt_tokens = metrics.prompt_tokens.labels(*kind)
