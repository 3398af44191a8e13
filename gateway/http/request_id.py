"""Every answer's `x-request-id`: made here for each request, whatever the client has sent, as OpenAI does and
as Envoy does at the edge. It is the id of the request's job, and nobody else may choose that."""

from __future__ import annotations

import re
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "x-request-id"
# What a client or a proxy calls the request: looked for in this order, and only logged.
CLIENT_HEADERS = ("x-client-request-id", HEADER)

_SANE = re.compile(r"[\x21-\x7e]{1,128}")
_KEY = "dllm_stack.request_id"  # where a scope has it


class RequestIds:
    """Stands before everything that answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = request_id_of(scope)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)


def new_request_id() -> str:
    return uuid4().hex


def request_id_of(scope: Scope) -> str:
    request_id: str = scope.setdefault(_KEY, new_request_id())
    return request_id


def client_request_id(headers: Headers) -> str | None:
    """What the client calls its request, if that is fit for a log."""
    for name in CLIENT_HEADERS:
        if (value := headers.get(name)) is not None and _SANE.fullmatch(value):
            return value
    return None
