"""The gateway as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from dllm_stack.settings import Settings
from gateway import errors, health, openapi
from gateway.access import Guard
from gateway.chat import routes as chat
from gateway.completions import routes as completions
from gateway.cors import Cors
from gateway.detokenize import routes as detokenize
from gateway.gateway import Gateway
from gateway.generate import routes as generate
from gateway.models import routes as models
from gateway.operations import OPERATIONS
from gateway.playground import routes as playground
from gateway.request_id import RequestIds
from gateway.tokenize import routes as tokenize


class _App(FastAPI):
    def __init__(self, settings: Settings, **described: Any) -> None:
        super().__init__(**described)
        self._origins = settings.gateway.cors_origins

    def build_middleware_stack(self) -> ASGIApp:
        """What concerns every answer stands before all else: before the keys, and before FastAPI's answer to
        an exception."""
        app = super().build_middleware_stack()
        return RequestIds(Cors(app, self._origins) if self._origins else app)


def create_app(settings: Settings) -> FastAPI:
    """`app.state.gateway` is its `Gateway`."""
    gateway = Gateway(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with gateway.running():
            yield

    app = _App(
        settings,
        title="dllm-stack gateway",
        lifespan=lifespan,
        redirect_slashes=False,
        # These pages would load their scripts from the internet.
        docs_url=None,
        redoc_url=None,
    )
    app.state.gateway = gateway
    app.add_middleware(Guard, access=gateway.access)
    errors.install(app)
    for routes in (chat, completions, generate, tokenize, detokenize, models, health):
        app.include_router(routes.router)
    if settings.gateway.playground:
        app.include_router(playground.router)
    openapi.install(app, OPERATIONS)
    return app
