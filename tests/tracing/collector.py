"""A collector of traces: what OTLP over HTTP brings, kept."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class Span:
    """`events`: name and attributes of each."""

    service: str
    name: str
    trace_id: str
    id: str
    parent: str
    began: int
    ended: int
    is_error: bool
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]


class Collector:
    """Use as an async context manager.

    Attributes:
        received: every byte of it.
    """

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Span] = []
        self.received = b""
        app = web.Application()
        app.add_routes([web.post("/v1/traces", self._take)])
        self._runner = web.AppRunner(app)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def named(self, name: str) -> Span:
        """The only one of this name."""
        [span] = [span for span in self.spans if span.name == name]
        return span

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()  # which aiohttp has decompressed
        asked = ExportTraceServiceRequest.FromString(body)
        self.received += body
        for resource in asked.resource_spans:
            service = _plain(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [_span(service, span) for span in scope.spans]
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(), content_type="application/x-protobuf"
        )


def _span(service: str, span: Any) -> Span:
    return Span(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code == span.status.STATUS_CODE_ERROR,
        _plain(span.attributes),
        [(event.name, _plain(event.attributes)) for event in span.events],
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {attribute.key: _value(attribute.value) for attribute in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)
