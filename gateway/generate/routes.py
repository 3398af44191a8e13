from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from dllm_stack.messages import Decoding
from gateway.decoding import Ask, choose
from gateway.exchange import Exchange
from gateway.gateway import Gateway, gateway_of
from gateway.generate.protocol import DEFAULT_MAX_NEW_TOKENS, RULES, SAMPLING_RULES
from gateway.generate.rendering import GenerateRendering
from gateway.jobs import Call
from gateway.parameters import check_context, check_stop_tokens
from gateway.validation import check, invalid, missing

router = APIRouter()


@router.post("/generate")
async def generate(request: Request) -> Response:
    return Exchange(gateway_of(request), "generate", _interpret)


async def _interpret(body: Any, gateway: Gateway, request_id: str) -> Call:
    asked = check(body, RULES)
    sampling = check(asked.sampling_params or {}, SAMPLING_RULES, "sampling_params")
    check_stop_tokens(sampling.stop_token_ids, sampling.ignore_eos, "sampling_params.stop_token_ids")
    given = asked.text or asked.input_ids
    if given is None:
        raise missing("text")
    if asked.text and asked.input_ids:
        raise invalid("input_ids", "cannot be given beside text")
    found = await gateway.catalogue.find(asked.model or await gateway.catalogue.only())
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
    check_context(
        found.card, given.prompts, "input_ids", sampling.max_new_tokens, "sampling_params.max_new_tokens"
    )
    return Call(
        pool=found.pool,
        prompts=given.prompts,
        prompt_param="text" if asked.text else "input_ids",
        decoding=Decoding(
            max_tokens=sampling.max_new_tokens or DEFAULT_MAX_NEW_TOKENS,
            stop=sampling.stop,
            stop_token_ids=sampling.stop_token_ids or [],
            ignore_eos=bool(sampling.ignore_eos),
            mode=choice.mode,
            decision=choice.decision,
            sampling=choice.sampling,
        ),
        seeded=choice.seeded,
        terms=asked,
        stream=bool(asked.stream),
        rendering=GenerateRendering(several=given.several, statistics=choice.statistics),
    )
