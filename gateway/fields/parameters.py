"""Fields and rules that several endpoints share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from dllm_stack.messages import ModelCard, Prompt, TokenPrompt
from dllm_stack.outcomes import ErrorCode, Problem, RequestError
from gateway.fields.validation import Neutral, invalid

MAX_STOPS = 4  # OpenAI's limit
# SGLang looks for each at every step, in as much text as the longest is long.
MAX_STOP_CHARACTERS = 1000
MAX_PROMPTS = 128  # prompts of one request; each is a job
MAX_CHOICES = 128  # choices of one request, over all of its prompts
MAX_INT = 2**31 - 1

Choices = Annotated[int, Field(ge=1, le=MAX_CHOICES)]
Count = Annotated[int, Field(ge=1, le=MAX_INT)]
TokenId = Annotated[int, Field(ge=0, le=MAX_INT)]
MAX_STOP_TOKENS = 1024  # each job of a request carries them all
# Of many wrong elements each would cost an error: the first is enough.
StopTokenIds = Annotated[list[TokenId], Field(max_length=MAX_STOP_TOKENS, fail_fast=True)]


def _stops(value: Any) -> Any:
    stops = [value] if isinstance(value, str) else value
    if (
        isinstance(stops, list)
        and len(stops) <= MAX_STOPS
        and all(isinstance(stop, str) and 1 <= len(stop) <= MAX_STOP_CHARACTERS for stop in stops)
    ):
        return stops
    if stops is None:
        return []
    raise PydanticCustomError(
        "stop",
        "must be a string of 1 to {longest} characters or an array of up to {most} of them",
        {"longest": MAX_STOP_CHARACTERS, "most": MAX_STOPS},
    )


_STOP_SCHEMA = {"type": "string", "minLength": 1, "maxLength": MAX_STOP_CHARACTERS}

Stops = Annotated[
    list[str],
    Field(default_factory=list),
    BeforeValidator(_stops),
    WithJsonSchema(
        {
            "anyOf": [
                _STOP_SCHEMA,
                {"type": "array", "items": _STOP_SCHEMA, "maxItems": MAX_STOPS},
                {"type": "null"},
            ]
        }
    ),
]


_TEXT_ONLY = "only text is taken"

SAMPLING: dict[str, Neutral] = {
    "structural_tag": Neutral((str,), ("",), "an answer's form is given by response_format, regex or ebnf"),
    "stop_regex": Neutral((str, list), ("", []), "only stop strings and stop token ids end an answer"),
    "no_stop_trim": Neutral((bool,), (False,), "the stop string is never part of the answer"),
    "skip_special_tokens": Neutral((bool,), (True,), "special tokens are never part of the text"),
    "spaces_between_special_tokens": Neutral((bool,), (True,), "special tokens are never part of the text"),
}
"""Decoding parameters without an effect, as OpenAI's and SGLang's clients send them."""

ENGINE: dict[str, Neutral] = {
    "lora_path": Neutral((str, list), (), "adapters are not served"),
    "custom_logit_processor": Neutral((str, list), (), "logit processors are not run"),
    "session_params": Neutral((dict,), ({},), "every request stands alone"),
    "return_hidden_states": Neutral((bool, str, list), (False,), "only text and token ids are returned"),
    "return_routed_experts": Neutral((bool,), (False,), "only text and token ids are returned"),
    "image_data": Neutral((str, list, dict), ([],), _TEXT_ONLY),
    "video_data": Neutral((str, list, dict), ([],), _TEXT_ONLY),
    "audio_data": Neutral((str, list, dict), ([],), _TEXT_ONLY),
    "rid": Neutral((str, list), (), "the gateway gives each request its id"),
    "priority": Neutral((int,), (), "use service_tier"),
}
"""SGLang's parameters of a request that are no decoding parameters."""


def agreed(asked: dict[str, int | None]) -> int | None:
    """The value of a parameter that has several names.

    Raises:
        RequestError: two of them differ.
    """
    given = {name: value for name, value in asked.items() if value is not None}
    if len(set(given.values())) > 1:
        first, second = list(given)[:2]
        message = f"{first} and {second} mean the same and differ."
        raise RequestError(Problem(ErrorCode.INVALID_VALUE, message, param=first))
    return next(iter(given.values()), None)


def check_choices(n: int | None, prompts: int) -> None:
    if (n or 1) * prompts > MAX_CHOICES:
        raise invalid("n", f"times the number of prompts must be at most {MAX_CHOICES}")


def check_stop_tokens(stop_token_ids: list[int] | None, ignore_eos: bool | None, param: str) -> None:
    """
    Raises:
        RequestError: the engine would not look at them.
    """
    if stop_token_ids and ignore_eos:
        raise invalid(param, "has no effect beside ignore_eos, which ignores every token that would stop")


def check_context(
    card: ModelCard | None, prompts: list[Prompt], prompt_param: str, tokens: int | None, tokens_param: str
) -> None:
    """Refuses what cannot fit whatever the tokenizer says; the worker knows the rest.

    Raises:
        RequestError: naming the parameter that is too large.
    """
    if card is None:
        return
    longest = max((len(prompt.ids) for prompt in prompts if isinstance(prompt, TokenPrompt)), default=0)
    for param, length in ((prompt_param, longest), (tokens_param, tokens or 0)):
        if length > card.context_length:
            message = (
                f"{param} asks for {length} tokens; {card.name} has a context of {card.context_length},"
                " prompt and answer together."
            )
            raise RequestError(Problem(ErrorCode.CONTEXT_LENGTH_EXCEEDED, message, param=param))
