"""What concerns every answer of an application, whoever gives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.cors import Cors
from gateway.http.request_id import RequestIds


class Application(FastAPI):
    """
    Args:
        closes: whether answers end their connections.
    """

    def __init__(
        self,
        *,
        cors_origins: Sequence[str] = (),
        closes: Callable[[], bool] = lambda: False,
        **described: Any,
    ) -> None:
        super().__init__(**described)
        self._cors_origins = cors_origins
        self._closes = closes

    def build_middleware_stack(self) -> ASGIApp:
        """Stands before the keys, as browsers send none with a preflight, and before FastAPI's answer to an
        exception."""
        app = super().build_middleware_stack()
        app = Cors(app, self._cors_origins) if self._cors_origins else app
        return _Closing(RequestIds(app), self._closes)


class _Closing:
    def __init__(self, app: ASGIApp, closes: Callable[[], bool]) -> None:
        self._app = app
        self._closes = closes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_close(message: Message) -> None:
            if message["type"] == "http.response.start" and self._closes():
                MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        await self._app(scope, receive, send_and_close)
