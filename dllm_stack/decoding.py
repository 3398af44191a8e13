"""How an answer is decoded: what a request may say, in which ranges, and what each algorithm takes.

Read by the gateway, the worker and the engine, so that all three refuse the same.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

Probability = Annotated[float, Meta(ge=0, le=1)]

MAX_STEPS = 1024
MAX_OWN = 2**53  # beyond, a float is no longer the number that was written
_INT64 = Meta(ge=-(2**63), le=2**63 - 1)


class Parameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Of the decoding algorithms that come with the engine; each takes some, see `ALGORITHMS`."""

    # A masked position is committed when its best token is more probable than this.
    threshold: Probability | UnsetType = UNSET
    # JointThreshold: a committed token is replaced by one that is more probable than this.
    edit_threshold: Probability | UnsetType = UNSET
    # JointThreshold: steps of a block after its last mask is gone.
    max_post_edit_steps: Annotated[int, Meta(ge=0, le=256)] | UnsetType = UNSET
    # JointThreshold: taken from the logit of the token on the left, against repetition.
    penalty_lambda: Annotated[float, Meta(ge=0, le=100)] | UnsetType = UNSET
    # EntropyBounded: nats that the tokens committed together may be uncertain of.
    entropy_bound: Annotated[float, Meta(ge=0, le=100)] | UnsetType = UNSET
    # Hierarchical: the best of each masked span is committed when it is more probable than this.
    low_threshold: Probability | UnsetType = UNSET
    # Credit: how much evidence of earlier steps adds to a logit, and how much of it a step keeps.
    credit_weight: Annotated[float, Meta(ge=0, le=10)] | UnsetType = UNSET
    credit_decay: Probability | UnsetType = UNSET
    # Forwards of one block; in the last one all that is still masked is committed.
    max_steps: Annotated[int, Meta(ge=1, le=MAX_STEPS)] | UnsetType = UNSET


class Sampling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How the token of a position is drawn. Temperature 0: the most probable one."""

    temperature: Annotated[float, Meta(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0  # 0: all
    seed: Annotated[int, _INT64] = 0


class GrammarKind(StrEnum):
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    EBNF = "ebnf"
    STRUCTURAL_TAG = "structural_tag"  # SGLang's: parts of the answer, each with a JSON schema


class Grammar(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer must look like, and why nothing else can be drawn."""

    kind: GrammarKind
    text: str


class TokenByToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What only an autoregressive engine honours."""

    min_p: Annotated[float, Meta(ge=0, le=1)] = 0.0  # of the best token's probability
    min_tokens: Annotated[int, Meta(ge=0)] = 0
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] = 0.0
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] = 0.0
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] = 1.0
    logit_bias: dict[int, Annotated[float, Meta(ge=-100, le=100)]] = {}  # by token id
    top_logprobs: Annotated[int, Meta(ge=0)] | None = None  # None: no log probabilities at all
    grammar: Grammar | None = None

    @property
    def asked(self) -> list[str]:
        """The names of what is not as it would be unasked."""
        unasked = TokenByToken()
        return [name for name in self.__struct_fields__ if getattr(self, name) != getattr(unasked, name)]

    @property
    def looks_back(self) -> bool:
        """Whether the next token depends on which of those before it are the answer's."""
        penalties = (self.frequency_penalty, self.presence_penalty, self.repetition_penalty)
        return self.grammar is not None or penalties != (0, 0, 1)


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An algorithm with its parameters by name; a user's own algorithm may have names of its own."""

    algorithm: str
    parameters: dict[str, Any] = {}


class EngineOptions(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """`custom_params.dllm` of a request to the engine. Without a decision the engine's default decides."""

    decision: Decision | None = None
    sampling: Sampling = Sampling()


ALGORITHMS: dict[str, frozenset[str]] = {
    "LowConfidence": frozenset({"threshold", "max_steps"}),
    "JointThreshold": frozenset(
        {"threshold", "edit_threshold", "max_post_edit_steps", "penalty_lambda", "max_steps"}
    ),
    "EntropyBounded": frozenset({"entropy_bound", "max_steps"}),
    "Hierarchical": frozenset({"threshold", "low_threshold", "max_steps"}),
    "Credit": frozenset({"threshold", "credit_weight", "credit_decay", "max_steps"}),
}
"""The parameters that each takes."""

SAMPLING_ALGORITHMS = frozenset({"LowConfidence"})
"""Those that can draw a token; the others take the most probable one."""


def check_parameters(algorithm: str, parameters: dict[str, Any]) -> Parameters:
    """The parameters of one of `ALGORITHMS`.

    Raises:
        ValueError: a sentence that begins with the name of the parameter that is wrong.
    """
    for name in parameters:
        if name not in Parameters.__struct_fields__:
            raise ValueError(f"{name} is not a decoding parameter")
        if name not in ALGORITHMS[algorithm]:
            takes = ", ".join(sorted(ALGORITHMS[algorithm]))
            raise ValueError(f"{name} is not a parameter of {algorithm}, which takes {takes}")
    for name, value in parameters.items():
        if isinstance(value, bool) or value is None:
            raise ValueError(f"{name} must be a number, not {msgspec.json.encode(value).decode()}")
        _check_range(name, value)
    return msgspec.convert(parameters, Parameters)


def check_own_parameters(parameters: dict[str, Any]) -> None:
    """Those of an algorithm that does not come with the engine, as far as they can be checked without it.

    Raises:
        ValueError: a sentence that begins with the name of the parameter that is wrong.
    """
    for name, value in parameters.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{name} must be a number")
        if not abs(value) <= MAX_OWN:
            raise ValueError(f"{name} must be from -2^53 to 2^53")
    if "max_steps" in parameters:  # the decoder's own, whatever the algorithm
        _check_range("max_steps", parameters["max_steps"])


def _check_range(name: str, value: Any) -> None:
    try:
        msgspec.convert({name: value}, Parameters)
    except msgspec.ValidationError as error:
        reason = str(error).split(" - at ")[0]
        raise ValueError(f"{name}: {reason[0].lower()}{reason[1:]}") from None
