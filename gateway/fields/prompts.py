"""Prompts that are text or token ids, one or several."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import msgspec
from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from dllm_stack.messages import Prompt, TextPrompt, TokenPrompt
from gateway.fields.parameters import MAX_INT, MAX_PROMPTS

_TokenIds = list[Annotated[int, msgspec.Meta(ge=0, le=MAX_INT)]]
_ANY_STRING = {"type": "string"}
_STRING = {**_ANY_STRING, "minLength": 1}
_ANY_TOKEN_IDS = {"type": "array", "items": {"type": "integer", "minimum": 0}}
_TOKEN_IDS = {**_ANY_TOKEN_IDS, "minItems": 1}


class Prompts(NamedTuple):
    """`several`: they came as a list, if only of one."""

    prompts: list[Prompt]
    several: bool


def _is_token_ids(value: Any) -> bool:
    try:
        msgspec.convert(value, _TokenIds)
    except msgspec.ValidationError:
        return False
    return True


def _prompts(value: Any, *, text: bool, tokens: bool, empty: bool = False) -> Prompts:
    def prompt(one: Any) -> Prompt | None:
        if one in ("", []) and not empty:
            return None
        if text and isinstance(one, str):
            return TextPrompt(one)
        return TokenPrompt(one) if tokens and _is_token_ids(one) else None

    if (single := prompt(value)) is not None:
        return Prompts([single], several=False)
    if isinstance(value, list) and 0 < len(value) <= MAX_PROMPTS:
        several = [found for one in value if (found := prompt(one)) is not None]
        if len(several) == len(value):
            return Prompts(several, several=True)
    some, any_array = ("a", "an") if empty else ("a non-empty", "a non-empty")
    kinds = " or ".join([f"{some} string"] * text + [f"{any_array} array of token ids"] * tokens)
    raise PydanticCustomError(
        "prompt", "must be {kinds}, or an array of 1 to {most} of them", {"kinds": kinds, "most": MAX_PROMPTS}
    )


def _schema(*items: dict[str, Any]) -> WithJsonSchema:
    several = [{"type": "array", "items": item, "minItems": 1, "maxItems": MAX_PROMPTS} for item in items]
    return WithJsonSchema({"anyOf": [*items, *several]})


Texts = Annotated[
    Prompts,
    PlainValidator(lambda value: _prompts(value, text=True, tokens=True)),
    _schema(_STRING, _TOKEN_IDS),
]
PlainTexts = Annotated[
    Prompts, PlainValidator(lambda value: _prompts(value, text=True, tokens=False)), _schema(_STRING)
]
TokenIds = Annotated[
    Prompts, PlainValidator(lambda value: _prompts(value, text=False, tokens=True)), _schema(_TOKEN_IDS)
]
AnyTexts = Annotated[
    Prompts,
    PlainValidator(lambda value: _prompts(value, text=True, tokens=False, empty=True)),
    _schema(_ANY_STRING),
]
AnyTokenIds = Annotated[
    Prompts,
    PlainValidator(lambda value: _prompts(value, text=False, tokens=True, empty=True)),
    _schema(_ANY_TOKEN_IDS),
]
