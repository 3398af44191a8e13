"""What chat and completions take alike."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from dllm_stack.capabilities import Capability
from gateway.fields import token_by_token
from gateway.fields.decoding import Dllm, Seed
from gateway.fields.parameters import ENGINE, SAMPLING, Choices, Count
from gateway.fields.terms import TermsInBody
from gateway.fields.token_by_token import MIN_TOKENS, NO_GRAMMAR, MinTokens, TokenByTokenFields
from gateway.fields.validation import Conditional, Honoured, Neutral, invalid

_QUEUE_POSITION = (
    "Comments say where a request waits: by priority class and arrival, before which fair sharing between"
    " tenants may serve it, or after."
)


class StreamOptions(Honoured):
    include_usage: bool | None = None
    # As vLLM has it: the running usage in every chunk, beside include_usage.
    continuous_usage_stats: bool | None = None
    include_queue_position: Annotated[bool | None, Field(description=_QUEUE_POSITION)] = None
    include_obfuscation: bool | None = None  # without effect: nothing is padded


class OpenAIFields(TermsInBody, TokenByTokenFields):
    model: str
    n: Choices | None = None
    max_tokens: Count | None = None
    min_tokens: MinTokens | None = None  # as vLLM and SGLang name it
    response_format: dict[str, Any] | None = None  # see grammar.py
    seed: Seed | None = None
    dllm: Dllm | None = None  # checked by `decoding.choose`
    return_token_ids: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def schema_param(self) -> str:
        """The field that has a JSON Schema, if one has."""
        return "json_schema" if self.json_schema else "response_format"

    @property
    def tells_position(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_queue_position)


NEUTRAL: dict[str, Neutral] = {
    **SAMPLING,
    **ENGINE,
    "custom_params": Neutral((dict,), ({},), "the engine's own parameters are not passed through; use dllm"),
}
IGNORED = frozenset({"user", "metadata", "store", "safety_identifier"})
CONDITIONAL: dict[str, Conditional] = {
    **token_by_token.CONDITIONAL,
    "min_tokens": MIN_TOKENS,
    "response_format": Conditional(Capability.RESPONSE_FORMAT, ({"type": "text"},), NO_GRAMMAR),
}


def check_stream_options(asked: OpenAIFields) -> None:
    if asked.stream_options is not None and not asked.stream:
        raise invalid("stream_options", "is only for requests with stream=true")
