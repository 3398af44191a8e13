"""POST /generate, as SGLang's own: what it takes and what it answers."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import ConfigDict, WithJsonSchema

from gateway.fields.decoding import DLLM_SCHEMA, Dllm, Seed
from gateway.fields.parameters import ENGINE, SAMPLING, Count
from gateway.fields.prompts import PlainTexts, TokenIds
from gateway.fields.terms import TermsInBody
from gateway.fields.token_by_token import (
    CONDITIONAL,
    LOGPROBS,
    MIN_TOKENS,
    TOP_LOGPROBS,
    MinTokens,
    TokenByTokenFields,
    TopLogprobs,
)
from gateway.fields.validation import Honoured, Neutral, Rules
from gateway.statistics import Statistics

DEFAULT_MAX_NEW_TOKENS = 128  # SGLang's


_CUSTOM_PARAMS = {
    "type": "object",
    "properties": {"dllm": DLLM_SCHEMA},
    "additionalProperties": False,
}


class CustomParams(Honoured):
    dllm: Dllm | None = None  # checked by `decoding.choose`


class SamplingParams(TokenByTokenFields):
    max_new_tokens: Count | None = None
    min_new_tokens: MinTokens | None = None
    sampling_seed: Seed | None = None
    custom_params: Annotated[CustomParams, WithJsonSchema(_CUSTOM_PARAMS)] | None = None


SAMPLING_RULES = Rules(
    SamplingParams,
    neutral={**SAMPLING, "n": Neutral((int,), (1,), "a prompt has one answer; send it again for another")},
    ignored=frozenset({"stream_interval"}),  # every committed block is sent at once
    conditional={**CONDITIONAL, "min_new_tokens": MIN_TOKENS},
)


def _only(prompt: str, *types: str) -> dict[str, Any]:
    properties = {"text": {"type": "null"}, "input_ids": {"type": "null"}} | {prompt: {"type": list(types)}}
    return {"required": [prompt], "properties": properties}


class GenerateRequest(TermsInBody):
    model_config = ConfigDict(
        json_schema_extra={"anyOf": [_only("text", "string", "array"), _only("input_ids", "array")]}
    )

    text: PlainTexts | None = None
    input_ids: TokenIds | None = None
    sampling_params: Annotated[dict[str, Any], WithJsonSchema(SAMPLING_RULES.json_schema())] | None = None
    stream: bool | None = None
    return_logprob: bool | None = None
    top_logprobs_num: TopLogprobs | None = None
    return_text_in_logprobs: bool | None = None
    model: str | None = None  # not SGLang's: needed where there are several models


RULES = Rules(
    GenerateRequest,
    neutral={
        **ENGINE,
        "token_ids_logprob": Neutral((list,), ([],), "only the likeliest tokens are told"),
        "logprob_start_len": Neutral((int,), (-1,), "the prompt's tokens have no log probabilities"),
        "input_embeds": Neutral((list,), (), "prompts are text or token ids"),
    },
    ignored=frozenset({"log_metrics", "no_logs", "custom_labels"}),  # for the server's own log
    conditional={"return_logprob": LOGPROBS, "top_logprobs_num": TOP_LOGPROBS},
)


Logprob = tuple[float, int, str | None]


class FinishReason(msgspec.Struct, frozen=True):
    type: str  # "stop" or "length"
    matched: str | int | UnsetType | None = UNSET  # what ended it, of "stop"
    length: int | UnsetType = UNSET  # tokens generated, of "length"


class MetaInfo(msgspec.Struct, frozen=True):
    id: str
    finish_reason: FinishReason | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | UnsetType = UNSET  # known at the end
    e2e_latency: float | UnsetType = UNSET  # seconds, at the end
    dllm: Statistics | UnsetType = UNSET  # at the end, if the request asks for it
    # Where the request asks for them. Each is a log probability, the token's id, and its text or null.
    output_token_logprobs: list[Logprob] | UnsetType = UNSET
    output_top_logprobs: list[list[Logprob]] | UnsetType = UNSET


class Generated(msgspec.Struct, frozen=True):
    """One answer; of a stream, all of it so far."""

    text: str
    output_ids: list[int]
    meta_info: MetaInfo
    index: int | UnsetType = UNSET  # in a stream, of a list of prompts
