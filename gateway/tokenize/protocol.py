"""POST /tokenize, as SGLang's own: what it takes and what it answers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gateway.chat.protocol import Messages
from gateway.fields.prompts import AnyTexts
from gateway.fields.validation import Honoured, Neutral, Rules
from gateway.tools.protocol import ToolChoice, Tools


class TokenizeRequest(Honoured):
    model: str | None = None  # needed where there are several models
    prompt: AnyTexts | None = None
    messages: Messages | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice = None
    add_special_tokens: bool | None = None


RULES = Rules(
    TokenizeRequest,
    neutral={
        "add_generation_prompt": Neutral((bool,), (True,), "an answer always follows"),
        "continue_final_message": Neutral((bool,), (False,), "an answer is a message of its own"),
        "chat_template_kwargs": Neutral((dict,), ({},), "the chat template takes no arguments"),
        "reasoning_effort": Neutral((str,), ("none",), "the model does not think aloud"),
    },
    ignored=frozenset(),
)


class Tokenized(msgspec.Struct, frozen=True):
    """Of a list of prompts, lists."""

    tokens: Sequence[int | list[int]]
    count: int | list[int]
    max_model_len: int  # the model's context, in tokens
