"""Probes and metrics of one gateway."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dllm_stack.exposition import CONTENT_TYPE_LATEST, expose
from dllm_stack.redis import RedisError
from gateway.gateway import gateway_of

router = APIRouter()


@router.get("/healthz")
async def live() -> Response:
    """The process lives."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz")
async def ready(request: Request) -> Response:
    """The gateway may be sent requests: it is not about to leave, Redis answers, and keys are known."""
    gateway = gateway_of(request)
    if gateway.draining:
        return JSONResponse({"status": "draining"}, 503)
    try:
        await gateway.connections.ping()
    except RedisError:
        return JSONResponse({"status": "redis does not answer"}, 503)
    if not gateway.access.ready:
        return JSONResponse({"status": "keys are not known yet"}, 503)
    return JSONResponse({"status": "ready"})


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    return Response(expose(gateway_of(request).metrics.registry), media_type=CONTENT_TYPE_LATEST)
