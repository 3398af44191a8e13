from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from dllm_stack.messages import Information, Prompt, Tokenize
from dllm_stack.tenants import Tenant
from gateway.catalogue import Found
from gateway.chat.prompt import chat_prompt
from gateway.exchange import Exchange
from gateway.fields.validation import check, invalid, missing
from gateway.gateway import Gateway, gateway_of
from gateway.http import sse
from gateway.inquiry import Inquiry
from gateway.tokenize.protocol import RULES, Tokenized, TokenizeRequest
from gateway.tools.offer import offer

router = APIRouter()


@router.post("/tokenize")
async def tokenize(request: Request) -> Response:
    return Exchange(gateway_of(request), "tokenize", _interpret)


async def _interpret(body: Any, gateway: Gateway, request_id: str, tenant: Tenant) -> Inquiry:
    asked = check(body, RULES)
    found = await gateway.catalogue.find(asked.model or await gateway.catalogue.only(tenant))
    several = asked.prompt is not None and asked.prompt.several

    def document(told: Information) -> bytes:
        ids = told.token_ids
        count = [len(each) for each in ids]
        return sse.encode_json(
            Tokenized(ids if several else ids[0], count if several else count[0], told.context_length)
        )

    return Inquiry(
        pool=found.pool,
        asks=Tokenize(_prompts(asked, found), asked.add_special_tokens is not False),
        document=document,
    )


def _prompts(asked: TokenizeRequest, found: Found) -> list[Prompt]:
    if asked.messages is not None:
        if asked.prompt is not None:
            raise invalid("messages", "cannot be given beside prompt")
        return [chat_prompt(asked.messages, offer(asked.tools, asked.tool_choice, None, found))]
    if asked.prompt is None:
        raise missing("prompt")
    if asked.tools:
        raise invalid("tools", "is only for messages")
    return asked.prompt.prompts
