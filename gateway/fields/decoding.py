"""How a request asks to be decoded: by its model's name, by `dllm`, by temperature and what goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
from pydantic import Field, WithJsonSchema

from dllm_stack.decoding import (
    ALGORITHMS,
    Decision,
    Parameters,
    Sampling,
    TokenByToken,
    check_own_parameters,
    check_parameters,
)
from dllm_stack.messages import AUTOREGRESSIVE, DIFFUSION, Decoding, DecodingCard
from dllm_stack.outcomes import ErrorCode, Problem, RequestError
from gateway.catalogue import Found
from gateway.fields.honoured import ENGINE_DOES_NOT, capabilities, not_loaded
from gateway.fields.parameters import MAX_INT, Stops, StopTokenIds
from gateway.fields.validation import Honoured, invalid, unsupported

_UNSAMPLED = "is not supported without a temperature above 0: the most probable tokens are taken"
_NEUTRAL = {"top_p": (1,), "top_k": (-1, 0)}  # of an autoregressive model
_PARAMETERS: dict[str, Any] = msgspec.json.schema(Parameters)["$defs"]["Parameters"]["properties"]

DLLM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "mode": {"type": "string", "description": "One of the model's modes, as `:mode` behind its name."},
        "algorithm": {"type": "string", "description": "One of the model's algorithms, instead of a mode."},
        "stats": {"type": "boolean", "description": "Whether the answer tells what its blocks have cost."},
        **_PARAMETERS,
    },
    "description": "Parameters without an algorithm change those of the mode, or of the model's default.",
}

Seed = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
Dllm = Annotated[dict[str, Any], WithJsonSchema(DLLM_SCHEMA)]


class DecodingFields(Honoured):
    """What every endpoint takes under these names."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=MAX_INT)] | None = None
    stop: Stops
    stop_token_ids: StopTokenIds | None = None
    ignore_eos: bool | None = None


class Ask(NamedTuple):
    """What one request says of it.

    Attributes:
        path: before the names of the decoding fields in the request; empty or with a dot at its end.
        dllm_param: the name of `dllm` in the request.
    """

    sampling: DecodingFields
    seed: int | None
    dllm: dict[str, Any] | None
    path: str = ""
    seed_param: str = "seed"
    dllm_param: str = "dllm"


@dataclass(frozen=True)
class Choice:
    """See `messages.Decoding`.

    Attributes:
        sampling: None: as the model does it unasked.
        seeded: False: each of the request's jobs needs a seed of its own.
        statistics: the answer shall tell what its blocks have cost.
    """

    mode: str | None = None
    decision: Decision | None = None
    sampling: Sampling | None = None
    seeded: bool = True
    statistics: bool = False


def choose(found: Found, ask: Ask) -> Choice:
    """
    Raises:
        RequestError: naming what this model cannot do, or what contradicts itself.
    """
    if found.card is not None and found.card.is_autoregressive:
        return _autoregressive(found, ask)
    given = {name: value for name, value in (ask.dllm or {}).items() if value is not None}
    statistics = given.pop("stats", False)
    if not isinstance(statistics, bool):
        raise invalid(f"{ask.dllm_param}.stats", "must be a boolean")
    temperature = ask.sampling.temperature
    if not temperature:
        _check_unsampled(found, ask)
    if not (given or statistics or temperature or found.mode is not None):
        # A model that is not known yet may draw unasked, and shall not.
        return Choice(sampling=DIFFUSION if temperature == 0 and found.card is None else None)
    card = _decoding_of(found, ask, bool(given or statistics))
    mode, decision = _decide(found, given, ask.dllm_param, card)
    chosen = decision or (card.default if mode is None else card.modes[mode])
    if not temperature:
        return Choice(mode, decision, statistics=statistics)
    # The engine knows what an algorithm of one's own can.
    if chosen.algorithm in ALGORITHMS and chosen.algorithm not in card.sampling:
        raise unsupported(
            f"{ask.path}temperature",
            f"above 0 is not supported by {chosen.algorithm}, which takes the most probable tokens: choose "
            f"{' or '.join(card.sampling)}",
        )
    return Choice(mode, decision, _drawn(ask, temperature), ask.seed is not None, statistics)


def decoding_of(
    asked: DecodingFields, choice: Choice, max_tokens: int | None, token_by_token: TokenByToken
) -> Decoding:
    """What reaches the worker."""
    return Decoding(
        max_tokens=max_tokens,
        stop=asked.stop,
        stop_token_ids=asked.stop_token_ids or [],
        ignore_eos=bool(asked.ignore_eos),
        mode=choice.mode,
        decision=choice.decision,
        sampling=choice.sampling,
        token_by_token=token_by_token,
    )


def _autoregressive(found: Found, ask: Ask) -> Choice:
    if any(value is not None for value in (ask.dllm or {}).values()):
        raise unsupported(ask.dllm_param, f"is not supported: {found.pool} is autoregressive")
    asked = {
        "temperature": ask.sampling.temperature,
        "top_p": ask.sampling.top_p,
        "top_k": ask.sampling.top_k,
        ask.seed_param: ask.seed,
    }
    for name, value in asked.items():
        capability = "seed" if name == ask.seed_param else name
        if value not in (None, *_NEUTRAL.get(name, ())) and capability not in capabilities(found):
            raise unsupported(f"{ask.path}{name}", f"is not supported by {found.pool}: {ENGINE_DOES_NOT}")
    temperature = asked["temperature"]
    if temperature is None:
        temperature = AUTOREGRESSIVE.temperature
    return Choice(sampling=_drawn(ask, temperature), seeded=ask.seed is not None or temperature == 0)


def _drawn(ask: Ask, temperature: float) -> Sampling:
    return Sampling(
        temperature=temperature,
        top_p=1.0 if ask.sampling.top_p is None else ask.sampling.top_p,
        top_k=max(0, ask.sampling.top_k or 0),
        seed=ask.seed or 0,
    )


def _check_unsampled(found: Found, ask: Ask) -> None:
    sampling = ask.sampling
    asks = sampling.top_p not in (None, 1) or sampling.top_k not in (None, -1, 0, 1) or ask.seed is not None
    if asks and found.card is None and sampling.temperature is None:
        raise not_loaded(found)  # an autoregressive model draws without being asked to
    if sampling.top_p not in (None, 1):
        raise unsupported(f"{ask.path}top_p", _UNSAMPLED)
    if sampling.top_k not in (None, -1, 0, 1):
        raise unsupported(f"{ask.path}top_k", _UNSAMPLED)
    if ask.seed is not None:
        raise unsupported(f"{ask.path}{ask.seed_param}", _UNSAMPLED)


def _decoding_of(found: Found, ask: Ask, by_dllm: bool) -> DecodingCard:
    if found.card is None:
        raise not_loaded(found)
    if found.card.decoding is not None:
        return found.card.decoding
    if by_dllm:
        raise unsupported(ask.dllm_param, f"is not supported: {found.pool} is decoded in one way only")
    raise unsupported(
        f"{ask.path}temperature", f"above 0 is not supported: {found.pool} takes the most probable tokens"
    )


def _decide(
    found: Found, given: dict[str, Any], path: str, card: DecodingCard
) -> tuple[str | None, Decision | None]:
    """The mode, or the decision where it is none of the modes as they are; neither: the default."""
    mode = _name(given, "mode", path)
    algorithm = _name(given, "algorithm", path)
    if mode is not None and mode not in card.modes:
        raise invalid(f"{path}.mode", f"must be a mode of {found.pool}: {', '.join(card.modes)}")
    if mode is not None and found.mode is not None and mode != found.mode:
        raise invalid(f"{path}.mode", f"differs from the mode in the model's name, {found.mode}")
    mode = mode or found.mode
    if algorithm is not None and mode is not None:
        raise invalid(f"{path}.algorithm", "cannot be given beside a mode, which has one")
    if algorithm is not None and algorithm not in card.algorithms:
        raise invalid(
            f"{path}.algorithm", f"must be an algorithm of {found.pool}: {', '.join(card.algorithms)}"
        )
    if algorithm is not None:
        base = Decision(algorithm=algorithm)
    else:
        base = card.default if mode is None else card.modes[mode]
        if not given:
            return mode, None
    _check_parameters(base.algorithm, given, path, card)
    return None, Decision(algorithm=base.algorithm, parameters=base.parameters | given)


def _name(given: dict[str, Any], field: str, path: str) -> str | None:
    value = given.pop(field, None)
    if value is None or isinstance(value, str):
        return value
    raise invalid(f"{path}.{field}", "must be a string")


def _check_parameters(algorithm: str, given: dict[str, Any], path: str, card: DecodingCard) -> None:
    for name, value in given.items():
        if algorithm in ALGORITHMS and name not in card.algorithms[algorithm]:
            takes = ", ".join(card.algorithms[algorithm])
            raise unsupported(
                f"{path}.{name}"[:100], f"is not a parameter of {algorithm}, which takes {takes}"
            )
        param = f"{path}.{name}"[:100]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise invalid(param, "must be a number")
        try:
            if algorithm in ALGORITHMS:
                check_parameters(algorithm, {name: value})
            else:
                check_own_parameters({name: value})
        except ValueError as error:
            message = f"{param}{str(error).removeprefix(name)}."
            raise RequestError(Problem(ErrorCode.INVALID_VALUE, message, param=param)) from None
