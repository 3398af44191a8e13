from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from dllm_stack.tenants import Tenant
from gateway.exchange import Exchange
from gateway.fields import honoured
from gateway.fields.decoding import Ask, choose, decoding_of
from gateway.fields.names import Names
from gateway.fields.parameters import check_context, check_stop_tokens
from gateway.fields.token_by_token import token_by_token
from gateway.fields.validation import check, invalid, missing
from gateway.gateway import Gateway, gateway_of
from gateway.generate.protocol import DEFAULT_MAX_NEW_TOKENS, RULES, SAMPLING_RULES
from gateway.generate.rendering import GenerateRendering
from gateway.jobs import Call

router = APIRouter()


@router.post("/generate")
async def generate(request: Request) -> Response:
    return Exchange(gateway_of(request), "generate", _interpret)


async def _interpret(body: Any, gateway: Gateway, request_id: str, tenant: Tenant) -> Call:
    asked = check(body, RULES)
    sampling = check(asked.sampling_params or {}, SAMPLING_RULES, "sampling_params")
    check_stop_tokens(sampling.stop_token_ids, sampling.ignore_eos, "sampling_params.stop_token_ids")
    given = asked.text or asked.input_ids
    if given is None:
        raise missing("text")
    if asked.text and asked.input_ids:
        raise invalid("input_ids", "cannot be given beside text")
    found = await gateway.catalogue.find(asked.model or await gateway.catalogue.only(tenant))
    honoured.check(asked, RULES, found)
    honoured.check(sampling, SAMPLING_RULES, found, "sampling_params.")
    if asked.top_logprobs_num and not asked.return_logprob:
        raise invalid("top_logprobs_num", "is only for requests with return_logprob=true")
    choice = choose(
        found,
        Ask(
            sampling,
            sampling.sampling_seed,
            sampling.custom_params.dllm if sampling.custom_params else None,
            path="sampling_params.",
            seed_param="sampling_seed",
            dllm_param="sampling_params.custom_params.dllm",
        ),
    )
    max_tokens = sampling.max_new_tokens or DEFAULT_MAX_NEW_TOKENS
    shaped = token_by_token(
        sampling,
        found.card,
        top_logprobs=(asked.top_logprobs_num or 0) if asked.return_logprob else None,
        min_tokens=sampling.min_new_tokens,
        max_tokens=max_tokens,
        min_tokens_param="sampling_params.min_new_tokens",
        path="sampling_params.",
    )
    check_context(
        found.card, given.prompts, "input_ids", sampling.max_new_tokens, "sampling_params.max_new_tokens"
    )
    return Call(
        pool=found.pool,
        prompts=given.prompts,
        names=Names(
            "text" if asked.text else "input_ids",
            path="sampling_params.",
            dllm="sampling_params.custom_params.dllm",
            schema="sampling_params.json_schema",
            max_tokens="sampling_params.max_new_tokens",
        ),
        decoding=decoding_of(sampling, choice, max_tokens, shaped),
        seeded=choice.seeded,
        terms=asked,
        stream=bool(asked.stream),
        rendering=GenerateRendering(
            several=given.several,
            statistics=choice.statistics,
            logprobs=bool(asked.return_logprob),
            logprob_texts=bool(asked.return_text_in_logprobs),
        ),
    )
