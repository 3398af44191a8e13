"""POST /v1/completions: what it takes and what it answers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import Field

from dllm_stack.messages import Tier
from gateway.fields.openai import CONDITIONAL, IGNORED, NEUTRAL, OpenAIFields
from gateway.fields.prompts import Texts
from gateway.fields.token_by_token import COMPLETION_LOGPROBS, MAX_COMPLETION_LOGPROBS
from gateway.fields.validation import Neutral, Rules
from gateway.logprobs import CompletionLogprobs
from gateway.statistics import Statistics
from gateway.usage import Usage

DEFAULT_MAX_TOKENS = 16  # as in OpenAI's reference


class CompletionRequest(OpenAIFields):
    prompt: Texts
    logprobs: Annotated[int, Field(ge=0, le=MAX_COMPLETION_LOGPROBS)] | None = None


RULES = Rules(
    CompletionRequest,
    neutral={
        **NEUTRAL,
        "best_of": Neutral((int,), (1,), "every choice is part of the answer"),
        "echo": Neutral((bool,), (False,), "the prompt is not part of the answer"),
        "suffix": Neutral((str,), ("",), "text is only continued, never inserted"),
    },
    ignored=IGNORED,
    conditional={**CONDITIONAL, "logprobs": COMPLETION_LOGPROBS},
)


class Choice(msgspec.Struct, frozen=True):
    text: str
    index: int
    finish_reason: str | None = None
    logprobs: CompletionLogprobs | None = None
    token_ids: list[int] | UnsetType = UNSET  # if the request asks for them


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer, and each chunk of a streamed one."""

    id: str
    object: str = "text_completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | UnsetType | None = UNSET
    system_fingerprint: None = None
    service_tier: Tier | UnsetType = UNSET  # if the request has one
    dllm: Statistics | UnsetType = UNSET  # if the request asks for it, in the last of a stream
