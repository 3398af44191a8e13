"""The life of one request, from its first byte to the last byte of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dllm_stack.messages import End
from dllm_stack.outcomes import ErrorCode, Outcome, Problem, RequestError
from gateway.answering import Answering
from gateway.asking import Asking
from gateway.fields.terms import Terms, TermsInHeaders
from gateway.gateway import SHUTTING_DOWN, Gateway
from gateway.http.body import ClientGone
from gateway.http.channel import Channel
from gateway.http.errors import INTERNAL, error_response
from gateway.http.refusal import refuse_unread
from gateway.inquiry import Inquiry
from gateway.intake import Interpret, receive_body, understand
from gateway.jobs import Call
from gateway.record import Record
from gateway.time_limit import TimeLimit

SEND_GRACE_S = 5.0  # what a client that does not read may take beyond the deadline

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
        self._body_read = False
        self._work: Call | Inquiry | None = None  # once it is known
        self._service: Answering | Asking | None = None  # while it is done
        self._closed: End | None = None

    def close(self, end: End) -> None:
        """Ends the exchange from outside of it. The first end counts."""
        self._closed = self._closed or end
        if self._service is not None:
            self._service.close(self._closed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gateway = self._gateway
        record = Record(gateway, self._endpoint, scope)
        limit = TimeLimit(record.arrived, gateway.settings.gateway.request_timeout_s)
        channel = Channel(send, limit.deadline + SEND_GRACE_S)
        channel.headers |= record.headers
        gateway.ledger.open.add(self)
        end = End(outcome=Outcome.FAILED, problem=SHUTTING_DOWN)  # when the server cancels this task
        try:
            end = await self._serve(Headers(scope=scope), receive, channel, limit, record)
            if end.problem is not None:
                await self._report(end.problem, receive, channel)
        except ClientGone:
            end = self._closed or _GONE
        finally:
            gateway.ledger.open.discard(self)
            record.close(end, channel.status)

    async def _serve(
        self, headers: Headers, receive: Receive, channel: Channel, limit: TimeLimit, record: Record
    ) -> End:
        """Returns the end; one with a problem is still to be reported to the client."""
        gateway, access = self._gateway, self._gateway.access
        try:
            tenant = await access.tenant(headers)
            record.is_of(tenant)
            terms = TermsInHeaders.read(headers)
            limit.shorten(terms.timeout_s)
            if gateway.refuses:
                raise RequestError(SHUTTING_DOWN)
            body = await receive_body(headers, receive, gateway, limit)
            self._body_read = True
            work = self._work = await understand(body, self._interpret, gateway, tenant, record)
            del body
            limit.shorten(work.terms.timeout)
            channel.give_up_at = limit.deadline + SEND_GRACE_S
            # The body may have taken its time, and the key have been revoked meanwhile.
            tenant = await access.tenant(headers)
            tier = access.permit(tenant, work)
            record.is_permitted(tier)
            if isinstance(work, Inquiry):
                self._service = Asking(work, tenant, gateway, record)
            else:
                agreed = Terms.agreed(tenant, tier, terms, work.terms, limit.deadline)
                self._service = Answering(work, agreed, gateway, record)
            if self._closed is not None:
                return self._closed
            with self._ends_early(self._service, receive, channel, limit):
                end = await self._service.run(channel)
        except RequestError as error:
            return self._closed or _ended(error.problem)
        except ClientGone:
            raise
        except Exception:
            log.exception("unexpected error", endpoint=self._endpoint)
            return _ended(INTERNAL)
        if end.problem is None and end.outcome is not Outcome.COMPLETED and end is not self._closed:
            return _ended(_UNEXPLAINED)
        return end

    @contextmanager
    def _ends_early(
        self, service: Answering | Asking, receive: Receive, channel: Channel, limit: TimeLimit
    ) -> Iterator[None]:
        """When the client leaves, or the time is up."""

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            channel.gone = True
            self.close(_GONE)

        def expire() -> None:
            self.close(_ended(limit.exceeded("finish" if service.begun else "get a first block")))

        watching = asyncio.create_task(watch())
        timer = asyncio.get_running_loop().call_at(limit.deadline, expire)
        try:
            yield
        finally:
            timer.cancel()
            watching.cancel()

    async def _report(self, problem: Problem, receive: Receive, channel: Channel) -> None:
        if channel.started:
            assert isinstance(self._work, Call)
            await channel.write(self._work.rendering.failure(problem), more=False)
        elif not self._body_read:
            await refuse_unread(problem, receive, channel)
        else:
            response = error_response(problem)
            await channel.start(response.status_code, response.headers)
            await channel.write(bytes(response.body), more=False)


def _ended(problem: Problem) -> End:
    return End(outcome=problem.outcome, problem=problem)
