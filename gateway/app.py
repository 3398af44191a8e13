"""The gateway as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI

from dllm_stack.settings import Settings
from gateway import health
from gateway.access import Guard
from gateway.chat import routes as chat
from gateway.completions import routes as completions
from gateway.detokenize import routes as detokenize
from gateway.gateway import Gateway
from gateway.generate import routes as generate
from gateway.http import errors
from gateway.http.outermost import Application
from gateway.models import routes as models
from gateway.openapi import document as openapi
from gateway.openapi.operations import OPERATIONS
from gateway.playground import routes as playground
from gateway.tokenize import routes as tokenize


def create_app(settings: Settings) -> FastAPI:
    """`app.state.gateway` is its `Gateway`."""
    gateway = Gateway(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with gateway.running():
            yield

    exchanges = [routes.router for routes in (chat, completions, generate, tokenize, detokenize)]
    app = Application(
        cors_origins=settings.gateway.cors_origins,
        closes=lambda: gateway.draining,
        guard=partial(Guard, access=gateway.access),
        direct={route.path: route.endpoint for router in exchanges for route in router.routes},
        title="dllm-stack gateway",
        lifespan=lifespan,
        redirect_slashes=False,
        # These pages would load their scripts from the internet.
        docs_url=None,
        redoc_url=None,
    )
    app.state.gateway = gateway
    errors.install(app)
    for router in (*exchanges, models.router, health.router):
        app.include_router(router)
    if settings.gateway.playground:
        app.include_router(playground.router)
    openapi.install(app, OPERATIONS)
    return app
