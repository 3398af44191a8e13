"""From a request's bytes to what it asks for."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive

from dllm_stack.outcomes import ErrorCode, Problem, RequestError
from dllm_stack.tenants import Tenant
from gateway.fields.terms import settle_auto
from gateway.gateway import Gateway
from gateway.http.body import decode_json, read_body
from gateway.inquiry import Inquiry
from gateway.jobs import Call
from gateway.record import Record
from gateway.time_limit import TimeLimit

LARGE_BYTES = 64 << 10  # a body that others are let in between

# Takes the decoded body, the request's id and whose it is. Raises RequestError.
Interpret = Callable[[Any, Gateway, str, Tenant], Awaitable[Call | Inquiry]]


async def receive_body(headers: Headers, receive: Receive, gateway: Gateway, limit: TimeLimit) -> bytes:
    """
    Raises:
        RequestError: it is too large, or too late, or its memory is needed for others.
        ClientGone
    """
    settings = gateway.settings.gateway
    body_limit = TimeLimit(limit.arrived, settings.body_timeout_s)
    try:
        async with gateway.room.share(min(limit.deadline, body_limit.deadline)) as share:
            return await read_body(headers, receive, settings.max_body_bytes, share)
    except TimeoutError:
        if limit.seconds <= body_limit.seconds:
            raise RequestError(limit.exceeded("send its body")) from None
        message = f"The body did not arrive within {body_limit.seconds:g} s."
        raise RequestError(Problem(ErrorCode.REQUEST_TIMEOUT, message)) from None


async def understand(
    body: bytes, interpret: Interpret, gateway: Gateway, tenant: Tenant, record: Record
) -> Call | Inquiry:
    """
    Raises:
        RequestError: naming what is wrong with it.
    """
    is_large = len(body) > LARGE_BYTES
    with _without_garbage_collection():
        asked = decode_json(body)
        if isinstance(asked, dict):
            record.is_for(asked.get("model"))
            settle_auto(asked, tenant)
        if is_large:
            await asyncio.sleep(0)  # what waits meanwhile goes on
        work = await interpret(asked, gateway, record.id, tenant)
        record.asks(work)
        del asked
    if is_large:
        await asyncio.sleep(0)
    return work


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """It would look through a large document again and again while it is made and checked, and keep everybody
    else waiting several times as long. If the block waits for something, all go on without it: that is
    harmless."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
