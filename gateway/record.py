"""What metrics, trace and log are told of one request."""

from __future__ import annotations

import time
from collections.abc import Sequence

import structlog
from starlette.datastructures import Headers
from starlette.types import Scope

from dllm_stack import tracing
from dllm_stack.messages import End, Tier
from dllm_stack.outcomes import Outcome
from dllm_stack.tenants import Tenant
from gateway import charge, spans
from gateway.answer import Answer
from gateway.fields.terms import Terms
from gateway.gateway import Gateway
from gateway.http.request_id import client_request_id, request_id_of
from gateway.inquiry import Inquiry
from gateway.jobs import Call
from gateway.metrics import Kind
from gateway.ticket import Ticket

log = structlog.get_logger()


class Record:
    """Of a request from its arrival on; it ends with `close`, once.

    Attributes:
        arrived: monotonic seconds.
        kind: as far as it is known.
        tenant: its name; None until it is known.
        tickets: of its jobs.
        answers: what has come of them.
    """

    def __init__(self, gateway: Gateway, endpoint: str, scope: Scope) -> None:
        self.id = request_id_of(scope)
        self.endpoint = endpoint
        self.arrived = time.monotonic()
        self.kind = Kind()
        self.tenant: str | None = None
        self.tickets: Sequence[Ticket] = ()
        self.answers: Sequence[Answer] = ()
        self._gateway = gateway
        self._scope = scope
        self.span = gateway.tracer.start(endpoint, spans.trace_of(scope), kind="server", began=self.arrived)
        trace = self.span.trace
        structlog.contextvars.bind_contextvars(request=self.id, **({"trace": trace.id} if trace else {}))
        if self.span.is_recorded:
            self.span.set(spans.arrived(scope, self.id, endpoint))
        gateway.metrics.open_requests.labels(endpoint).inc()

    def is_of(self, tenant: Tenant) -> None:
        self.tenant = tenant.name
        if self._gateway.access.ring is not None:
            self._gateway.metrics.expect_tenant(tenant.name)

    @property
    def headers(self) -> dict[str, str]:
        """Of the answer: by which its trace can be found."""
        trace = self.span.trace
        if trace is None or self._gateway.tracer is tracing.OFF:
            return {}
        return {spans.RESPONSE_HEADER: trace.parent}

    def is_for(self, model: object) -> None:
        """What the body says of it, whether that exists or not."""
        self.kind = Kind(self._gateway.catalogue.label(model))

    def asks(self, work: Call | Inquiry) -> None:
        mode = work.mode if isinstance(work, Call) else ""
        self.kind = Kind(self._gateway.catalogue.label(work.pool), mode)

    def is_permitted(self, tier: Tier) -> None:
        self.kind = self.kind._replace(tier=tier.value)
        self._gateway.metrics.expect(self.endpoint, self.kind)

    def begins(self, call: Call, terms: Terms) -> None:
        if self.span.is_recorded:
            self.span.rename(f"{spans.OPERATIONS[self.endpoint]} {call.pool}")
            self.span.set(spans.asks(call, terms))

    def close(self, end: End, status: int | None) -> None:
        """`status`: of HTTP; None: none was sent."""
        metrics, trace = self._gateway.metrics, self.span.trace
        seconds = time.monotonic() - self.arrived
        metrics.open_requests.labels(self.endpoint).dec()
        exemplar = trace.id if trace is not None and trace.is_sampled else None
        metrics.count(self.endpoint, self.kind, end, seconds, exemplar)
        if self.tenant is not None and self._gateway.access.ring is not None:
            metrics.count_tenant(self.tenant, end, charge.used(self.tickets))
        code = None if end.problem is None else str(end.problem.code)
        for answer in self.answers:
            answer.close(code)
        spans.ended(self.span, end, self.tickets, status)
        told = {"endpoint": self.endpoint, "model": self.kind.model, "code": code}
        if end.outcome is Outcome.FAILED:
            client = client_request_id(Headers(scope=self._scope))
            log.warning("request failed", client_request=client, **told)
        else:
            log.debug("request ended", outcome=end.outcome.value, seconds=seconds, **told)
