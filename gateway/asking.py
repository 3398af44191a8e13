"""Inquiries: served by a question to a worker."""

from __future__ import annotations

import asyncio

from dllm_stack.messages import End, Information
from dllm_stack.tenants import Tenant
from gateway import relay
from gateway.charge import Charge
from gateway.gateway import Gateway
from gateway.http.channel import Channel
from gateway.inquiry import Inquiry
from gateway.record import Record


class Asking:
    """One inquiry, from the question to the last byte of its answer. It counts as a request of its tenant,
    and as no token."""

    begun = True  # what is late is an answer, not a first block

    def __init__(self, inquiry: Inquiry, tenant: Tenant, gateway: Gateway, record: Record) -> None:
        self._inquiry = inquiry
        self._tenant = tenant
        self._gateway = gateway
        self._record = record
        self._question: asyncio.Task[Information] | None = None
        self._closed: End | None = None

    def close(self, end: End) -> None:
        self._closed = self._closed or end
        if self._question is not None:
            self._question.cancel()

    async def run(self, channel: Channel) -> End:
        """As `Answering.run`."""
        feed = self._gateway.ledger.feed(self._inquiry.pool)
        limiter, record = self._gateway.limiter, self._record
        toll = Charge(limiter, self._tenant, record.id, channel, (0, 0), lambda: 0)
        try:
            await toll.reserve()
            self._question = asyncio.create_task(feed.ask(self._inquiry.asks, record.id, record.span.trace))
            if self._closed is None:
                await asyncio.wait({self._question})
            if self._closed is not None:
                return self._closed
            await relay.send(self._inquiry.document(self._question.result()), channel)
            return relay.COMPLETED
        finally:
            if self._question is not None:
                self._question.cancel()
            await toll.settle()
