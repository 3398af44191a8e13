from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.access import tenant_of
from gateway.gateway import gateway_of
from gateway.http.sse import encode_json
from gateway.models.protocol import ModelList, model_of

router = APIRouter()


@router.get("/v1/models")
async def list_models(request: Request) -> Response:
    models, tenant = await gateway_of(request).catalogue.all(), tenant_of(request)
    may = sorted((name, card) for name, card in models.items() if tenant.may_use(name))
    return _json(ModelList(data=[model_of(name, card) for name, card in may]))


@router.get("/v1/models/{name:path}")
async def retrieve_model(name: str, request: Request) -> Response:
    gateway = gateway_of(request)
    found = await gateway.catalogue.find(name)
    gateway.access.permit_model(tenant_of(request), found.pool)
    return _json(model_of(name, found.card))


def _json(payload: Any) -> Response:
    return Response(encode_json(payload), media_type="application/json")
