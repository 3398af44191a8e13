"""Probes and metrics of one gateway."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from dllm_stack.exposition import expose
from dllm_stack.redis import RedisError
from gateway.gateway import gateway_of
from gateway.http.sse import encode_json

router = APIRouter()


class Status(msgspec.Struct, frozen=True):
    status: str


@router.get("/healthz")
async def live() -> Response:
    """The process lives."""
    return _status("ok")


@router.get("/readyz")
async def ready(request: Request) -> Response:
    """The gateway may be sent requests: it is not about to leave, Redis answers, and keys are known."""
    gateway = gateway_of(request)
    if gateway.draining:
        return _status("draining", 503)
    try:
        await gateway.connections.ping()
    except RedisError:
        return _status("redis does not answer", 503)
    if not gateway.access.ready:
        return _status("keys are not known yet", 503)
    return _status("ready")


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    accept = request.headers.get("accept", "")
    body, content_type = await expose(gateway_of(request).metrics.registry, accept)
    return Response(body, headers={"content-type": content_type})


def _status(what: str, code: int = 200) -> Response:
    return Response(encode_json(Status(what)), code, media_type="application/json")
