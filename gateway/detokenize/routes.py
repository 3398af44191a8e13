from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from dllm_stack.messages import Detokenize, Information, TokenPrompt
from dllm_stack.tenants import Tenant
from gateway.detokenize.protocol import RULES, Detokenized
from gateway.exchange import Exchange
from gateway.fields.validation import check
from gateway.gateway import Gateway, gateway_of
from gateway.http import sse
from gateway.inquiry import Inquiry

router = APIRouter()


@router.post("/detokenize")
async def detokenize(request: Request) -> Response:
    return Exchange(gateway_of(request), "detokenize", _interpret)


async def _interpret(body: Any, gateway: Gateway, request_id: str, tenant: Tenant) -> Inquiry:
    asked = check(body, RULES)
    found = await gateway.catalogue.find(asked.model or await gateway.catalogue.only(tenant))

    def document(told: Information) -> bytes:
        return sse.encode_json(Detokenized(told.texts if asked.tokens.several else told.texts[0]))

    return Inquiry(
        pool=found.pool,
        asks=Detokenize(
            [prompt.ids for prompt in asked.tokens.prompts if isinstance(prompt, TokenPrompt)],
            asked.skip_special_tokens is False,
        ),
        document=document,
    )
