"""The body of an engine's /generate: a job's decoding in SGLang's words."""

from __future__ import annotations

from typing import Any

import msgspec

from dllm_stack.decoding import EngineOptions
from dllm_stack.messages import AUTOREGRESSIVE, Decoding

AS_IT_DOES = EngineOptions()


def body(
    rid: str,
    token_ids: list[int],
    max_tokens: int,
    decoding: Decoding,
    options: EngineOptions,
    *,
    autoregressive: bool,
) -> dict[str, Any]:
    """
    Args:
        options: what `decoding` chooses of a dLLM; only an engine that decodes per request knows them.
    """
    sampling: dict[str, Any] = {
        "temperature": 0,
        "max_new_tokens": max_tokens,
        "stop": decoding.stop,
        "stop_token_ids": decoding.stop_token_ids,
        "ignore_eos": decoding.ignore_eos,
    }
    asked: dict[str, Any] = {"rid": rid, "input_ids": token_ids, "stream": True, "sampling_params": sampling}
    if autoregressive:
        sampling |= _token_by_token(decoding, max_tokens)
        asked |= _logprobs(decoding.token_by_token.top_logprobs)
    elif options != AS_IT_DOES:
        sampling["custom_params"] = {"dllm": msgspec.to_builtins(options)}
    return asked


def _token_by_token(decoding: Decoding, max_tokens: int) -> dict[str, Any]:
    drawn = decoding.sampling or AUTOREGRESSIVE
    shaped = decoding.token_by_token
    params: dict[str, Any] = {
        # The checkpoint's generation_config.json would fill in what is not said here.
        "temperature": drawn.temperature,
        "top_p": drawn.top_p,
        "top_k": drawn.top_k or -1,
        "min_p": shaped.min_p,
        "frequency_penalty": shaped.frequency_penalty,
        "presence_penalty": shaped.presence_penalty,
        "repetition_penalty": shaped.repetition_penalty,
        "min_new_tokens": min(shaped.min_tokens, max_tokens),
        "sampling_seed": drawn.seed,  # without effect where the engine draws without seeds
    }
    if shaped.logit_bias:
        params["logit_bias"] = {str(token_id): bias for token_id, bias in shaped.logit_bias.items()}
    if shaped.grammar is not None:
        params[shaped.grammar.kind] = shaped.grammar.text
    return params


def _logprobs(top: int | None) -> dict[str, Any]:
    if top is None:
        return {}
    return {"return_logprob": True, "top_logprobs_num": top, "logprob_start_len": -1}
