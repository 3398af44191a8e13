"""What a request's span says of it, by OpenTelemetry's conventions for HTTP and for generative AI. Nothing of
a prompt or an answer is among it."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import Scope

from dllm_stack.messages import End, Trace
from dllm_stack.tracing import Attributes, Span, read
from gateway.jobs import Call
from gateway.terms import Terms
from gateway.ticket import Ticket

RESPONSE_HEADER = "traceresponse"  # as the drafts of W3C's Trace Context call it
OPERATIONS = {"chat": "chat", "completions": "text_completion", "generate": "text_completion"}


def trace_of(scope: Scope) -> Trace | None:
    """What the client says; None in the usual case, which is to cost nothing."""
    parents = [value.decode("latin-1") for name, value in scope["headers"] if name == b"traceparent"]
    if not parents:
        return None
    states = [value.decode("latin-1") for name, value in scope["headers"] if name == b"tracestate"]
    return read(parents, states)


def arrived(scope: Scope, request_id: str, endpoint: str) -> Attributes:
    return {
        "http.request.method": scope["method"],
        "url.path": scope["path"],
        "gen_ai.operation.name": OPERATIONS.get(endpoint, endpoint),
        "gen_ai.provider.name": "dllm-stack",
        "dllm.request.id": request_id,
    }


def asks(call: Call, terms: Terms) -> Attributes:
    sampling, max_tokens = call.decoding.sampling, call.decoding.max_tokens
    known: dict[str, str | int | float] = {
        "gen_ai.request.model": call.pool,
        "gen_ai.request.stream": call.stream,
        "gen_ai.request.choice.count": call.n,
        "dllm.mode": call.mode,
        "dllm.tier": terms.tier.value,
        "dllm.tenant": terms.tenant.name,
    }
    if max_tokens is not None:
        known["gen_ai.request.max_tokens"] = max_tokens
    if sampling is not None:
        known["gen_ai.request.temperature"] = sampling.temperature
    return known


def ended(span: Span, end: End, tickets: Sequence[Ticket], status: int | None) -> None:
    """The last that is told to a request's span."""
    if span.is_recorded:
        ends = [ticket.end for ticket in tickets if ticket.end is not None]
        span.set(
            {
                "gen_ai.usage.input_tokens": sum(ticket.prompt_tokens for ticket in tickets),
                "gen_ai.usage.cache_read.input_tokens": sum(each.cached_tokens for each in ends),
                "gen_ai.usage.output_tokens": sum(ticket.tokens for ticket in tickets),
                "gen_ai.response.finish_reasons": [each.finish_reason or "error" for each in ends],
                "dllm.outcome": end.outcome.value,
            }
        )
        if status is not None:
            span.set({"http.response.status_code": status})
    span.end(error=str(end.problem.code) if end.problem else None)
