from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from dllm_stack.tenants import Tenant
from gateway.completions.protocol import DEFAULT_MAX_TOKENS, RULES
from gateway.completions.rendering import CompletionRendering
from gateway.exchange import Exchange
from gateway.fields import honoured
from gateway.fields.decoding import Ask, choose, decoding_of
from gateway.fields.names import Names
from gateway.fields.openai import check_stream_options
from gateway.fields.parameters import check_choices, check_context, check_stop_tokens
from gateway.fields.token_by_token import token_by_token
from gateway.fields.validation import check
from gateway.gateway import Gateway, gateway_of
from gateway.jobs import Call

router = APIRouter()


@router.post("/v1/completions")
async def create_completion(request: Request) -> Response:
    return Exchange(gateway_of(request), "completions", _interpret)


async def _interpret(body: Any, gateway: Gateway, request_id: str, tenant: Tenant) -> Call:
    asked = check(body, RULES)
    check_stream_options(asked)
    check_stop_tokens(asked.stop_token_ids, asked.ignore_eos, "stop_token_ids")
    found = await gateway.catalogue.find(asked.model)
    honoured.check(asked, RULES, found)
    choice = choose(found, Ask(asked, asked.seed, asked.dllm))
    max_tokens = asked.max_tokens or DEFAULT_MAX_TOKENS
    shaped = token_by_token(
        asked,
        found.card,
        top_logprobs=asked.logprobs,
        min_tokens=asked.min_tokens,
        max_tokens=max_tokens,
        response_format=asked.response_format,
    )
    prompts = asked.prompt.prompts
    check_choices(asked.n, len(prompts))
    check_context(found.card, prompts, "prompt", asked.max_tokens, "max_tokens")
    return Call(
        pool=found.pool,
        prompts=prompts,
        names=Names("prompt", schema=asked.schema_param),
        decoding=decoding_of(asked, choice, max_tokens, shaped),
        seeded=choice.seeded,
        terms=asked,
        stream=bool(asked.stream),
        rendering=CompletionRendering(request_id, asked, choice.statistics),
        n=asked.n or 1,
        tells_position=asked.tells_position,
    )
