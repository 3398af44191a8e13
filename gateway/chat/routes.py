from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from dllm_stack.tenants import Tenant
from gateway.chat.prompt import chat_prompt
from gateway.chat.protocol import RULES
from gateway.chat.rendering import ChatRendering
from gateway.exchange import Exchange
from gateway.fields import honoured
from gateway.fields.decoding import Ask, choose, decoding_of
from gateway.fields.names import Names
from gateway.fields.openai import check_stream_options
from gateway.fields.parameters import agreed, check_context, check_stop_tokens
from gateway.fields.token_by_token import token_by_token
from gateway.fields.validation import check, invalid
from gateway.gateway import Gateway, gateway_of
from gateway.jobs import Call
from gateway.tools.offer import offer

router = APIRouter()


@router.post("/v1/chat/completions")
async def create_chat_completion(request: Request) -> Response:
    return Exchange(gateway_of(request), "chat", _interpret)


async def _interpret(body: Any, gateway: Gateway, request_id: str, tenant: Tenant) -> Call:
    asked = check(body, RULES)
    check_stream_options(asked)
    check_stop_tokens(asked.stop_token_ids, asked.ignore_eos, "stop_token_ids")
    max_tokens = agreed(
        {"max_completion_tokens": asked.max_completion_tokens, "max_tokens": asked.max_tokens}
    )
    found = await gateway.catalogue.find(asked.model)
    honoured.check(asked, RULES, found)
    offered = offer(asked.tools, asked.tool_choice, asked.parallel_tool_calls, found)
    prompt = chat_prompt(asked.messages, offered)
    if asked.top_logprobs and not asked.logprobs:
        raise invalid("top_logprobs", "is only for requests with logprobs=true")
    choice = choose(found, Ask(asked, asked.seed, asked.dllm))
    shaped = token_by_token(
        asked,
        found.card,
        top_logprobs=(asked.top_logprobs or 0) if asked.logprobs else None,
        min_tokens=asked.min_tokens,
        max_tokens=max_tokens,
        response_format=asked.response_format,
        calls=offered.grammar if offered else None,
    )
    tokens_param = "max_tokens" if asked.max_tokens else "max_completion_tokens"
    check_context(found.card, [prompt], "messages", max_tokens, tokens_param)
    return Call(
        pool=found.pool,
        prompts=[prompt],
        names=Names("messages", schema=asked.schema_param, max_tokens=tokens_param),
        decoding=decoding_of(asked, choice, max_tokens, shaped),
        seeded=choice.seeded,
        terms=asked,
        stream=bool(asked.stream),
        rendering=ChatRendering(request_id, asked, choice.statistics, offered),
        n=asked.n or 1,
        tells_position=asked.tells_position,
    )
