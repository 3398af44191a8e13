"""What a request asks of a model that generates token by token: the fields, and what is made of them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from dllm_stack.capabilities import Capability
from dllm_stack.decoding import Grammar, TokenByToken
from dllm_stack.messages import ModelCard
from gateway.fields.decoding import DecodingFields
from gateway.fields.grammar import MAX_GRAMMAR_CHARACTERS, grammar_of
from gateway.fields.parameters import MAX_INT
from gateway.fields.validation import Conditional, invalid

MAX_BIASES = 1024  # tokens of one logit_bias
MAX_TOP_LOGPROBS = 20  # OpenAI's limits, of chat and
MAX_COMPLETION_LOGPROBS = 5  # of completions

_NO_PENALTY = "block diffusion takes the probabilities as they are"
_NO_LOGPROBS = "block diffusion has no log probability for each token"
NO_GRAMMAR = "constrained decoding is not available"

_LARGEST_BIAS = 100


def _biases(value: Any) -> Any:
    if value is None:
        return value
    if (
        isinstance(value, dict)
        and len(value) <= MAX_BIASES
        and all(_is_token_id(name) and _is_bias(bias) for name, bias in value.items())
    ):
        return {int(name): float(bias) for name, bias in value.items()}
    raise PydanticCustomError(
        "logit_bias",
        "must map up to {most} token ids to numbers from -{largest} to {largest}",
        {"most": MAX_BIASES, "largest": _LARGEST_BIAS},
    )


def _is_token_id(name: Any) -> bool:
    # As many digits as MAX_INT has, so that no number is too long to be read.
    return (
        isinstance(name, str)
        and name.isascii()
        and name.isdecimal()
        and len(name) <= 10
        and int(name) <= MAX_INT
    )


def _is_bias(bias: Any) -> bool:
    return type(bias) in (int, float) and -_LARGEST_BIAS <= bias <= _LARGEST_BIAS


LogitBias = Annotated[
    dict[int, float],
    BeforeValidator(_biases),
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": {"pattern": "^[0-9]{1,10}$"},
            "additionalProperties": {"type": "number", "minimum": -_LARGEST_BIAS, "maximum": _LARGEST_BIAS},
            "maxProperties": MAX_BIASES,
        }
    ),
]
GrammarText = Annotated[str, Field(max_length=MAX_GRAMMAR_CHARACTERS)]
Penalty = Annotated[float, Field(ge=-2, le=2)]
TopLogprobs = Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)]
MinTokens = Annotated[int, Field(ge=0, le=MAX_INT)]


class TokenByTokenFields(DecodingFields):
    """What every endpoint takes under these names."""

    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=2)] | None = None
    logit_bias: LogitBias | None = None
    regex: GrammarText | None = None
    ebnf: GrammarText | None = None
    json_schema: GrammarText | None = None


CONDITIONAL: dict[str, Conditional] = {
    "min_p": Conditional(Capability.MIN_P, (0,), "only top_p and top_k narrow what is sampled"),
    "frequency_penalty": Conditional(Capability.FREQUENCY_PENALTY, (0,), _NO_PENALTY),
    "presence_penalty": Conditional(Capability.PRESENCE_PENALTY, (0,), _NO_PENALTY),
    "repetition_penalty": Conditional(Capability.REPETITION_PENALTY, (1,), _NO_PENALTY),
    "logit_bias": Conditional(Capability.LOGIT_BIAS, ({},), _NO_PENALTY),
    "regex": Conditional(Capability.REGEX, ("",), NO_GRAMMAR),
    "ebnf": Conditional(Capability.EBNF, ("",), NO_GRAMMAR),
    "json_schema": Conditional(Capability.RESPONSE_FORMAT, ("",), NO_GRAMMAR),
}
MIN_TOKENS = Conditional(Capability.MIN_TOKENS, (0,), "an answer ends where the model ends it")
LOGPROBS = Conditional(Capability.LOGPROBS, (False,), _NO_LOGPROBS)
TOP_LOGPROBS = Conditional(Capability.LOGPROBS, (0,), _NO_LOGPROBS)
COMPLETION_LOGPROBS = Conditional(Capability.LOGPROBS, (), _NO_LOGPROBS)


def token_by_token(
    asked: TokenByTokenFields,
    card: ModelCard | None,
    *,
    top_logprobs: int | None,
    min_tokens: int | None,
    max_tokens: int | None,
    min_tokens_param: str = "min_tokens",
    response_format: dict[str, Any] | None = None,
    calls: Grammar | None = None,
    path: str = "",
) -> TokenByToken:
    """What reaches the worker, of fields that the model honours.

    Args:
        top_logprobs: likely tokens to tell at each place; None: no log probabilities.
        calls: the form of an answer's calls.
        path: before the fields' names in the request; empty or with a dot at its end.

    Raises:
        RequestError: naming the field that is wrong.
    """
    biases = asked.logit_bias or {}
    if biases and card is not None and card.vocab_size is not None and max(biases) >= card.vocab_size:
        raise invalid(
            f"{path}logit_bias", f"has the key {max(biases)}; {card.name} has {card.vocab_size} tokens"
        )
    grammar = _grammar(asked, response_format, calls, path)
    if min_tokens and grammar:
        raise invalid(min_tokens_param, "cannot be given beside a form that says where the answer ends")
    if min_tokens and max_tokens is not None and min_tokens > max_tokens:
        raise invalid(min_tokens_param, f"must not be more than the {max_tokens} tokens of the answer")
    return TokenByToken(
        min_p=asked.min_p or 0.0,
        min_tokens=min_tokens or 0,
        frequency_penalty=asked.frequency_penalty or 0.0,
        presence_penalty=asked.presence_penalty or 0.0,
        repetition_penalty=1.0 if asked.repetition_penalty is None else asked.repetition_penalty,
        logit_bias=biases,
        top_logprobs=top_logprobs,
        grammar=grammar,
    )


def _grammar(
    asked: TokenByTokenFields, response_format: dict[str, Any] | None, calls: Grammar | None, path: str
) -> Grammar | None:
    given: dict[str, Any] = {
        "regex": asked.regex,
        "ebnf": asked.ebnf,
        "json_schema": asked.json_schema,
        "response_format": response_format,
    }
    grammars = [
        (f"{path}{name}", grammar)
        for name, value in given.items()
        if value not in (None, "") and (grammar := grammar_of(name, value, f"{path}{name}"))
    ]
    if calls is not None:
        grammars.append(("tools", calls))
    if len(grammars) > 1:
        raise invalid(grammars[1][0], f"cannot be given beside {grammars[0][0]}: an answer has one form")
    return grammars[0][1] if grammars else None
