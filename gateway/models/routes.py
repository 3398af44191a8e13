from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.gateway import gateway_of
from gateway.models.protocol import ModelList, model_of
from gateway.sse import encode_json

router = APIRouter()


@router.get("/v1/models")
async def list_models(request: Request) -> Response:
    models = await gateway_of(request).catalogue.all()
    return _json(ModelList(data=[model_of(name, card) for name, card in sorted(models.items())]))


@router.get("/v1/models/{name:path}")
async def retrieve_model(name: str, request: Request) -> Response:
    return _json(model_of(name, (await gateway_of(request).catalogue.find(name)).card))


def _json(payload: Any) -> Response:
    return Response(encode_json(payload), media_type="application/json")
