"""Distributed traces: what a request spends its time on, across gateway, queue, router, worker and engine.

Off unless `tracing.endpoint` is set. Then OpenTelemetry is not imported, and every span is the same nothing;
the trace context that a client sends still travels along, to the logs and to the engine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, Protocol

from dllm_stack.messages import Trace
from dllm_stack.settings import TracingSettings

__all__ = ["OFF", "Attributes", "Span", "SpanKind", "Tracer", "TracingError", "read", "tracer", "written"]

Value = str | bool | int | float | list[str]
Attributes = Mapping[str, Value]
SpanKind = Literal["internal", "server", "client", "producer", "consumer"]

_NOTHING: Attributes = {}
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_MOST_STATE = 512  # characters of a tracestate that must be passed on, says W3C


class TracingError(Exception):
    """Traces are asked for and cannot be sent; the message names the setting."""


class Span(Protocol):
    """A stretch of a request's time.

    Attributes:
        trace: what follows from it belongs to this; None: there is no trace.
        is_recorded: what it is told goes anywhere.
    """

    @property
    def trace(self) -> Trace | None: ...
    @property
    def is_recorded(self) -> bool: ...
    def set(self, attributes: Attributes) -> None: ...
    def rename(self, name: str) -> None: ...
    def event(self, name: str, attributes: Attributes = _NOTHING, *, at: float | None = None) -> None:
        """`at`: monotonic seconds; None: now."""

    def end(self, *, error: str | None = None) -> None:
        """Further calls do nothing. `error`: what kind, of few."""


class Tracer(Protocol):
    def start(
        self,
        name: str,
        parent: Trace | None,
        *,
        kind: SpanKind = "internal",
        attributes: Attributes = _NOTHING,
        began: float | None = None,
    ) -> Span:
        """`began`: monotonic seconds; None: now."""

    def close(self) -> None:
        """Sends what is left, which takes a few seconds at most. Blocks."""


class _NoSpan:
    __slots__ = ("trace",)
    is_recorded = False

    def __init__(self, trace: Trace | None) -> None:
        self.trace = trace

    def set(self, attributes: Attributes) -> None: ...
    def rename(self, name: str) -> None: ...
    def event(self, name: str, attributes: Attributes = _NOTHING, *, at: float | None = None) -> None: ...
    def end(self, *, error: str | None = None) -> None: ...


class _NoTracer:
    def start(
        self,
        name: str,
        parent: Trace | None,
        *,
        kind: SpanKind = "internal",
        attributes: Attributes = _NOTHING,
        began: float | None = None,
    ) -> Span:
        return _NoSpan(parent)

    def close(self) -> None: ...


OFF: Tracer = _NoTracer()


def tracer(settings: TracingSettings, service: str) -> Tracer:
    """
    Args:
        service: gateway | router | worker.

    Raises:
        TracingError: OpenTelemetry is not installed.
    """
    if settings.endpoint is None:
        return OFF
    try:
        from dllm_stack.tracing.otel import exporting
    except ImportError as error:
        raise TracingError(
            f"tracing.endpoint: {error.name or 'opentelemetry'} is not installed: pip install "
            "'dllm-stack[tracing]'"
        ) from None
    return exporting(settings, service)


def read(parents: list[str], states: list[str]) -> Trace | None:
    """The trace of a request with these headers `traceparent` and `tracestate`, as W3C's Trace Context reads
    them; None where there is none that is valid."""
    if len(parents) != 1:
        return None
    parent = parents[0].strip()
    # A later version may add something behind a hyphen.
    if not _PARENT.fullmatch(parent[:55]) or (parent[55:] and (parent[:2] == "00" or parent[55] != "-")):
        return None
    state = ",".join(states)
    return Trace(f"00{parent[2:55]}", state if len(state) <= _MOST_STATE and state.isascii() else "")


def written(trace: Trace | None) -> dict[str, str]:
    """The headers that pass it on."""
    if trace is None:
        return {}
    return {"traceparent": trace.parent} | ({"tracestate": trace.state} if trace.state else {})
