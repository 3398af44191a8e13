"""Traces by OpenTelemetry. Imported only where they are asked for."""

from __future__ import annotations

import time
import uuid

from opentelemetry import trace as api
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanContext, TraceFlags, TraceState

from dllm_stack.messages import Trace
from dllm_stack.settings import TracingSettings
from dllm_stack.tracing import Attributes, Span, SpanKind

_FLUSH_MS = 2000
_KINDS: dict[SpanKind, api.SpanKind] = {
    "internal": api.SpanKind.INTERNAL,
    "server": api.SpanKind.SERVER,
    "client": api.SpanKind.CLIENT,
    "producer": api.SpanKind.PRODUCER,
    "consumer": api.SpanKind.CONSUMER,
}


def exporting(settings: TracingSettings, service: str) -> OtelTracer:
    """Sends spans in batches, from a thread of its own; what the collector does not take is lost."""
    exporter = OTLPSpanExporter(endpoint=f"{settings.endpoint}/v1/traces", timeout=settings.timeout_s)
    return OtelTracer(BatchSpanProcessor(exporter), settings.sample, service)


class OtelTracer:
    """
    Args:
        sample: share of the traces that are recorded, of those that begin here. A trace that is there already
            says itself whether it is.
    """

    def __init__(self, processor: SpanProcessor, sample: float, service: str) -> None:
        resource = Resource.create(
            {
                "service.namespace": "dllm-stack",
                "service.name": f"dllm-{service}",
                "service.instance.id": uuid.uuid4().hex,
            }
        )
        sampler = ParentBased(TraceIdRatioBased(sample))
        self._provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("dllm-stack")

    def start(
        self,
        name: str,
        parent: Trace | None,
        *,
        kind: SpanKind = "internal",
        attributes: Attributes = {},  # noqa: B006
        began: float | None = None,
    ) -> Span:
        context = api.set_span_in_context(api.NonRecordingSpan(_context(parent))) if parent else Context()
        start = None if began is None else _unix_ns(began)
        span = self._tracer.start_span(name, context, _KINDS[kind], dict(attributes), start_time=start)
        return _OtelSpan(span, parent.state if parent else "")

    def close(self) -> None:
        self._provider.force_flush(_FLUSH_MS)
        self._provider.shutdown()


class _OtelSpan:
    def __init__(self, span: api.Span, state: str) -> None:
        self._span = span
        context = span.get_span_context()
        self.trace: Trace | None = Trace(
            f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}", state
        )
        self.is_recorded = span.is_recording()

    def set(self, attributes: Attributes) -> None:
        self._span.set_attributes(dict(attributes))

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def event(self, name: str, attributes: Attributes = {}, *, at: float | None = None) -> None:  # noqa: B006
        self._span.add_event(name, dict(attributes), None if at is None else _unix_ns(at))

    def end(self, *, error: str | None = None) -> None:
        if not self.is_recorded:
            return
        self.is_recorded = False
        if error is not None:
            self._span.set_attribute("error.type", error)
            self._span.set_status(api.StatusCode.ERROR)
        self._span.end()


def _context(trace: Trace) -> SpanContext:
    _, trace_id, span_id, flags = trace.parent.split("-")
    return SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(flags, 16)),
        trace_state=TraceState.from_header([trace.state]) if trace.state else None,
    )


def _unix_ns(monotonic: float) -> int:
    return time.time_ns() - round((time.monotonic() - monotonic) * 1e9)
