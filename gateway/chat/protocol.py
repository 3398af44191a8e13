"""POST /v1/chat/completions: what it takes and what it answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import ConfigDict, Field, WithJsonSchema, with_config
from pydantic.config import JsonDict
from typing_extensions import TypedDict

from dllm_stack.messages import Tier
from gateway.fields.openai import CONDITIONAL, IGNORED, NEUTRAL, OpenAIFields
from gateway.fields.parameters import Count
from gateway.fields.token_by_token import LOGPROBS, TOP_LOGPROBS, TopLogprobs
from gateway.fields.validation import STRICT, Neutral, Rules
from gateway.logprobs import ChatLogprobs
from gateway.statistics import Statistics
from gateway.tools.protocol import ToolChoice, Tools
from gateway.usage import Usage

MAX_MESSAGES = 10_000  # in memory an empty one takes thirty times what it takes as JSON


@with_config(STRICT)
class FunctionCall(TypedDict):
    name: str
    arguments: str


@with_config(STRICT)
class ToolCall(TypedDict):
    id: str
    type: Literal["function"]
    function: FunctionCall
    index: NotRequired[int | None]  # as the SDK's accumulated streams have it; without effect


_PART = {
    "type": "object",
    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
    "required": ["type", "text"],
    "additionalProperties": False,
}
_CONTENT = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": _PART}, {"type": "null"}],
    "description": "Needed unless there are tool_calls.",
}
_ANYTHING_SAID: JsonDict = {
    "anyOf": [
        {"required": ["content"], "properties": {"content": {"type": ["string", "array"]}}},
        {"required": ["tool_calls"], "properties": {"tool_calls": {"type": "array", "minItems": 1}}},
    ]
}


@with_config(ConfigDict(**STRICT, json_schema_extra=_ANYTHING_SAID))
class Message(TypedDict):
    # There may be many: an object for each would cost more than all the rest.
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: NotRequired[Annotated[Any, WithJsonSchema(_CONTENT)]]  # checked in prompt.py
    name: NotRequired[str | None]
    tool_call_id: NotRequired[str | None]
    tool_calls: NotRequired[Annotated[list[ToolCall], Field(fail_fast=True)] | None]
    # Of an assistant's message, as the SDK gives it back; without effect.
    refusal: NotRequired[str | None]
    annotations: NotRequired[list[Any] | None]
    audio: NotRequired[None]
    function_call: NotRequired[None]


Messages = Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES, fail_fast=True)]


class ChatRequest(OpenAIFields):
    messages: Messages
    tools: Tools | None = None
    tool_choice: ToolChoice = None
    parallel_tool_calls: bool | None = None
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None


RULES = Rules(
    ChatRequest,
    neutral={
        **NEUTRAL,
        "functions": Neutral((list,), ([],), "use tools, which came after them"),
        "function_call": Neutral((str, dict), ("auto", "none"), "use tool_choice, which came after it"),
        "modalities": Neutral((list,), (["text"],), "only text is generated"),
        "audio": Neutral((dict,), (), "only text is generated"),
        "reasoning_effort": Neutral((str,), ("none",), "the model does not think aloud"),
        "verbosity": Neutral((str,), ("medium",), "the length of an answer cannot be steered"),
        "moderation": Neutral((dict,), (), "nothing is moderated"),
        "web_search_options": Neutral((dict,), (), "there is no web search"),
        "chat_template_kwargs": Neutral((dict,), ({},), "the chat template takes no arguments"),
    },
    ignored=IGNORED | {"prediction", "prompt_cache_options", "prompt_cache_retention"},
    conditional={**CONDITIONAL, "logprobs": LOGPROBS, "top_logprobs": TOP_LOGPROBS},
)


class CalledFunction(msgspec.Struct, frozen=True):
    name: str
    arguments: str


class Called(msgspec.Struct, frozen=True):
    id: str
    function: CalledFunction
    type: str = "function"


class ReplyMessage(msgspec.Struct, frozen=True):
    content: str | None  # None beside calls, if there is no text
    role: str = "assistant"
    refusal: None = None
    tool_calls: list[Called] | UnsetType = UNSET


class Choice(msgspec.Struct, frozen=True):
    message: ReplyMessage
    finish_reason: str
    index: int = 0
    logprobs: ChatLogprobs | None = None
    token_ids: list[int] | UnsetType = UNSET  # if the request asks for them


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: str = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    system_fingerprint: None = None
    service_tier: Tier | UnsetType = UNSET  # if the request has one
    dllm: Statistics | UnsetType = UNSET  # if the request asks for it, in the last of a stream


class FunctionDelta(msgspec.Struct, frozen=True):
    arguments: str
    name: str | UnsetType = UNSET  # in a call's first delta, as are id and type


class CallDelta(msgspec.Struct, frozen=True):
    index: int  # of the call in the message
    function: FunctionDelta
    id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET


class Delta(msgspec.Struct, frozen=True):
    role: str | UnsetType = UNSET
    content: str | UnsetType | None = UNSET
    tool_calls: list[CallDelta] | UnsetType = UNSET


class ChunkChoice(msgspec.Struct, frozen=True):
    delta: Delta
    finish_reason: str | None = None
    index: int = 0
    logprobs: ChatLogprobs | None = None
    token_ids: list[int] | UnsetType = UNSET  # if the request asks for them


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: str = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | UnsetType | None = UNSET
    system_fingerprint: None = None
    service_tier: Tier | UnsetType = UNSET  # if the request has one
    dllm: Statistics | UnsetType = UNSET  # if the request asks for it, in the last of a stream
