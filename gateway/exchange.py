"""The life of one request, from its first byte to the last byte of its answer."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from msgspec.structs import replace
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dllm_stack import tracing
from dllm_stack.limits import LimitError, Reservation
from dllm_stack.messages import End, Information
from dllm_stack.outcomes import ErrorCode, Outcome, Problem, RequestError
from dllm_stack.tenants import Tenant
from gateway import charge, relay, spans
from gateway.answer import Answer
from gateway.fields.terms import Terms, TermsInHeaders, settle_auto
from gateway.gateway import SHUTTING_DOWN, Gateway
from gateway.http.body import ClientGone, decode_json, read_body
from gateway.http.channel import Channel
from gateway.http.errors import INTERNAL, error_response
from gateway.http.refusal import refuse_unread
from gateway.http.request_id import client_request_id, request_id_of
from gateway.inquiry import Inquiry
from gateway.jobs import Call, Jobs
from gateway.keep_alive import KeepAlive
from gateway.metrics import Kind
from gateway.pace import Request

SEND_GRACE_S = 5.0  # what a client that does not read may take beyond the deadline

# Takes the decoded body and the request's id. Raises RequestError.
Interpret = Callable[[Any, Gateway, str], Awaitable[Call | Inquiry]]

log = structlog.get_logger()

_GONE = End(outcome=Outcome.CANCELLED)
_UNEXPLAINED = Problem(ErrorCode.ENGINE_ERROR, "The engine ended this request without an answer.")


class Exchange(Response):
    """An endpoint's response, which does all of the work when it is sent: only here are `receive` and
    `send` at hand, and with them the news that the client is gone.

    Every exchange ends in exactly one `End`, is counted once, and leaves nothing behind.
    """

    def __init__(self, gateway: Gateway, endpoint: str, interpret: Interpret) -> None:
        self.background = None
        self._gateway = gateway
        self._endpoint = endpoint
        self._interpret = interpret
        self._id = ""
        self._kind = Kind()
        self._tenant: str | None = None
        self._answers: list[Answer] = []
        self._timeout_s = math.inf
        self._call: Call | Inquiry | None = None
        self._jobs: Jobs | None = None
        self._asking: asyncio.Task[Information] | None = None
        self._closed: End | None = None
        self._body_read = False

    def close(self, end: End) -> None:
        """Ends the exchange from outside of it. The first end counts."""
        self._closed = self._closed or end
        if self._jobs is not None:
            self._jobs.close(self._closed)
        if self._asking is not None:
            self._asking.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gateway = self._gateway
        self._id, self._started = request_id_of(scope), time.monotonic()
        self._span = gateway.tracer.start(
            self._endpoint, spans.trace_of(scope), kind="server", began=self._started
        )
        trace = self._span.trace
        structlog.contextvars.bind_contextvars(request=self._id, **({"trace": trace.id} if trace else {}))
        self._limit(gateway.settings.gateway.request_timeout_s)
        channel = Channel(send, self._id, self._deadline + SEND_GRACE_S)
        if self._span.is_recorded:
            self._span.set(spans.arrived(scope, self._id, self._endpoint))
        if trace is not None and gateway.tracer is not tracing.OFF:
            channel.headers[spans.RESPONSE_HEADER] = trace.parent
        open_requests = gateway.metrics.open_requests.labels(self._endpoint)
        open_requests.inc()
        gateway.ledger.open.add(self)
        end = End(outcome=Outcome.FAILED, problem=SHUTTING_DOWN)  # when the server cancels this task
        try:
            end = await self._serve(scope, receive, channel)
            if end.problem is not None:
                await self._report(end.problem, receive, channel)
        except ClientGone:
            end = self._closed or _GONE
        finally:
            gateway.ledger.open.discard(self)
            open_requests.dec()
            self._tell(end, scope, channel)

    def _tell(self, end: End, scope: Scope, channel: Channel) -> None:
        """To metrics, trace and log, once."""
        metrics, tickets = self._gateway.metrics, self._jobs.tickets if self._jobs else []
        seconds, trace = time.monotonic() - self._started, self._span.trace
        exemplar = trace.id if trace is not None and trace.is_sampled else None
        metrics.count(self._endpoint, self._kind, end, seconds, exemplar)
        if self._tenant is not None and self._gateway.access.ring is not None:
            metrics.count_tenant(self._tenant, end, charge.used(tickets))
        code = None if end.problem is None else str(end.problem.code)
        for answer in self._answers:
            answer.close(code)
        spans.ended(self._span, end, tickets, channel.status)
        told = {"endpoint": self._endpoint, "model": self._kind.model, "code": code}
        if end.outcome is Outcome.FAILED:
            log.warning("request failed", client_request=client_request_id(Headers(scope=scope)), **told)
        else:
            log.debug("request ended", outcome=end.outcome.value, seconds=seconds, **told)

    async def _serve(self, scope: Scope, receive: Receive, channel: Channel) -> End:
        """Returns the end; one with a problem is still to be reported to the client."""
        try:
            headers, access = Headers(scope=scope), self._gateway.access
            tenant = await access.tenant(headers)
            self._tenant = tenant.name
            terms = TermsInHeaders.read(headers)
            self._limit(terms.timeout_s)
            self._call = await self._read(headers, receive, tenant)
            self._limit(self._call.terms.timeout)
            channel.give_up_at = self._deadline + SEND_GRACE_S
            # The body may have taken its time, and the key have been revoked meanwhile.
            tenant = await access.tenant(headers)
            tier = access.permit(tenant, self._call)
            self._kind = self._kind._replace(tier=tier.value)
            if isinstance(self._call, Inquiry):
                return await self._ask(self._call, tenant, receive, channel)
            agreed = Terms.agreed(tenant, tier, terms, self._call.terms, self._deadline)
            end = await self._answer(self._call, agreed, receive, channel)
        except RequestError as error:
            return self._closed or _ended(error.problem)
        except ClientGone:
            raise
        except Exception:
            log.exception("unexpected error", endpoint=self._endpoint)
            return _ended(INTERNAL)
        if end.problem is None and end.outcome is not Outcome.COMPLETED and end is not self._closed:
            return _ended(_UNEXPLAINED)
        return end if end.problem is None else replace(end, problem=self._call.names.put_into(end.problem))

    def _limit(self, timeout_s: float | None) -> None:
        """The shortest limit counts."""
        if timeout_s is not None and timeout_s < self._timeout_s:
            self._timeout_s = timeout_s
            self._deadline = self._started + timeout_s

    async def _read(self, headers: Headers, receive: Receive, tenant: Tenant) -> Call | Inquiry:
        gateway = self._gateway
        if gateway.refuses:
            raise RequestError(SHUTTING_DOWN)
        limit_s = gateway.settings.gateway.body_timeout_s
        try:
            async with asyncio.timeout_at(min(self._deadline, self._started + limit_s)):
                body = await read_body(headers, receive, gateway.settings.gateway.max_body_bytes)
        except TimeoutError:
            if self._timeout_s <= limit_s:
                raise RequestError(self._deadline_exceeded("send its body")) from None
            message = f"The body did not arrive within {limit_s:g} s."
            raise RequestError(Problem(ErrorCode.REQUEST_TIMEOUT, message)) from None
        self._body_read = True
        asked = decode_json(body)
        if isinstance(asked, dict):
            self._kind = Kind(gateway.catalogue.label(asked.get("model")))
            settle_auto(asked, tenant)
        call = await self._interpret(asked, gateway, self._id)
        self._kind = Kind(gateway.catalogue.label(call.pool), "" if isinstance(call, Inquiry) else call.mode)
        return call

    async def _answer(self, call: Call, terms: Terms, receive: Receive, channel: Channel) -> End:
        jobs = self._jobs = Jobs(call, terms, self._gateway.ledger, self._id, self._span.trace)
        if self._closed is not None:
            jobs.close(self._closed)
        watch = asyncio.create_task(self._watch(receive))
        timer = asyncio.get_running_loop().call_at(self._deadline, self._expire)
        reservation: Reservation | None = None
        try:
            if self._span.is_recorded:
                self._span.rename(f"{spans.OPERATIONS[self._endpoint]} {call.pool}")
                self._span.set(spans.asks(call, terms))
            admission = self._gateway.tracer.start("admission", self._span.trace, began=self._started)
            try:
                reservation = await self._reserve(
                    call, terms.tenant, lambda: charge.used(jobs.tickets), channel
                )
                await jobs.admit()
            finally:
                admission.end()
            metrics = self._gateway.metrics
            request = Request(
                metrics.pace(self._kind),
                self._started,
                self._gateway.tracer,
                self._span.trace,
            )
            self._answers = answers = [
                Answer(
                    choices := call.choices_of(number),
                    ticket,
                    request,
                    is_first=choices[0] % call.n == 0,
                )
                for number, ticket in enumerate(jobs.tickets)
            ]
            if not call.stream:
                return await relay.collect(jobs, answers, call.rendering, channel)
            period_s = self._gateway.settings.gateway.keep_alive_s
            keep_alive = KeepAlive(period_s, jobs.position if call.tells_position else None)
            return await relay.stream(jobs, answers, call.rendering, channel, keep_alive)
        finally:
            timer.cancel()
            watch.cancel()
            jobs.release()
            if reservation is not None:
                await reservation.settle(charge.used(jobs.tickets))

    async def _reserve(
        self, call: Call | Inquiry, tenant: Tenant, used: Callable[[], int], channel: Channel
    ) -> Reservation:
        asks = 0, 0
        if tenant.limits.tokens_per_minute is not None and isinstance(call, Call):
            asks = charge.asked((prompt for prompt, _ in call.tasks()), call.decoding.max_tokens)
        try:
            reservation = await self._gateway.limiter.reserve(tenant, self._id, *asks)
        except LimitError as error:
            channel.headers |= error.headers
            if isinstance(call, Call):
                raise RequestError(call.names.put_into(error.problem)) from None
            raise
        channel.headers |= reservation.headers

        async def settle() -> None:
            """A client that has its answer may send the next request at once, and has room for it."""
            await reservation.settle(used())

        channel.before_end = settle
        return reservation

    async def _ask(self, inquiry: Inquiry, tenant: Tenant, receive: Receive, channel: Channel) -> End:
        """A question counts as a request of its tenant, and as no token."""
        feed = self._gateway.ledger.feed(inquiry.pool)
        watch = asyncio.create_task(self._watch(receive))
        timer = asyncio.get_running_loop().call_at(self._deadline, self._expire)
        reservation: Reservation | None = None
        try:
            reservation = await self._reserve(inquiry, tenant, lambda: 0, channel)
            self._asking = asyncio.create_task(feed.ask(inquiry.asks, self._id, self._span.trace))
            if self._closed is None:
                await asyncio.wait({self._asking})
            if self._closed is not None:
                return self._closed
            await relay.send(inquiry.document(self._asking.result()), channel)
            return relay.COMPLETED
        finally:
            timer.cancel()
            watch.cancel()
            if self._asking is not None:
                self._asking.cancel()
            if reservation is not None:
                await reservation.settle(0)

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.close(_GONE)

    def _expire(self) -> None:
        ran = self._jobs is None or any(ticket.attempt for ticket in self._jobs.tickets)
        self.close(_ended(self._deadline_exceeded("finish" if ran else "get a first block")))

    def _deadline_exceeded(self, what: str) -> Problem:
        message = f"The request did not {what} within {self._timeout_s:g} s."
        return Problem(ErrorCode.DEADLINE_EXCEEDED, message)

    async def _report(self, problem: Problem, receive: Receive, channel: Channel) -> None:
        if channel.started:
            assert isinstance(self._call, Call)
            await channel.write(self._call.rendering.failure(problem), more=False)
            return
        if not self._body_read:
            await refuse_unread(problem, receive, channel)
            return
        response = error_response(problem)
        await channel.start(response.status_code, response.headers)
        await channel.write(bytes(response.body), more=False)


def _ended(problem: Problem) -> End:
    return End(outcome=problem.outcome, problem=problem)
