"""What concerns every answer of an application, whoever gives it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import structlog
from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.cors import Cors
from gateway.http.errors import INTERNAL, error_response
from gateway.http.request_id import HEADER, request_id_of

log = structlog.get_logger()

Endpoint = Callable[[Request], Awaitable[Response]]


class Application(FastAPI):
    """
    Args:
        closes: whether answers end their connections.
        guard: puts itself before an application.
        direct: endpoints that take the request alone, by path, for POST. For them FastAPI finds nothing to
            do, which takes it a third of all that the gateway does for a request.
    """

    def __init__(
        self,
        *,
        cors_origins: Sequence[str] = (),
        closes: Callable[[], bool] = lambda: False,
        guard: Callable[[ASGIApp], ASGIApp] = lambda app: app,
        direct: Mapping[str, Endpoint] | None = None,
        **described: Any,
    ) -> None:
        super().__init__(**described)
        self._cors_origins = cors_origins
        self._closes = closes
        self._guard = guard
        self._direct = direct or {}

    def build_middleware_stack(self) -> ASGIApp:
        """CORS stands before the keys, as browsers send none with a preflight; all stand before FastAPI, and
        before its answer to an exception."""
        app = super().build_middleware_stack()
        app = self._guard(_Direct(app, self._direct))
        failure: ASGIApp = error_response(INTERNAL)
        if self._cors_origins:
            app, failure = Cors(app, self._cors_origins), Cors(failure, self._cors_origins)
        return _EveryAnswer(app, failure, self._closes)


class _EveryAnswer:
    """Has its request's id, and ends its connection if it is to. A request that fails here without one gets
    one.

    Args:
        failure: answers such a request.
    """

    def __init__(self, app: ASGIApp, failure: ASGIApp, closes: Callable[[], bool]) -> None:
        self._app = app
        self._failure = failure
        self._closes = closes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = request_id_of(scope)
        started = False

        async def send_completed(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers[HEADER] = request_id
                if self._closes():
                    headers["connection"] = "close"
            await send(message)

        try:
            await self._app(scope, receive, send_completed)
        except Exception:
            if started:
                raise
            log.exception("unexpected error", request=request_id, path=scope["path"][:200])
            await self._failure(scope, receive, send_completed)


class _Direct:
    def __init__(self, app: ASGIApp, endpoints: Mapping[str, Endpoint]) -> None:
        self._app = app
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in self._endpoints:
            response = await self._endpoints[scope["path"]](Request(scope))
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)
