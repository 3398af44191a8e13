"""GET /v1/models: what it answers."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from dllm_stack.decoding import Decision
from dllm_stack.messages import DecodingCard, ModelCard


class Decoding(msgspec.Struct, frozen=True):
    """What a request may choose. A decision is an algorithm with its parameters beside it."""

    default: dict[str, Any]
    modes: dict[str, dict[str, Any]]
    algorithms: dict[str, list[str]]  # the parameters that each takes
    sampling: list[str]  # the algorithms that honour a temperature


class Model(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: str = "model"
    created: int  # Unix seconds; 0 until the model is loaded
    owned_by: str = "dllm-stack"
    max_model_len: int | UnsetType = UNSET  # tokens, as vLLM and SGLang name it
    decoding: Decoding | UnsetType = UNSET  # absent where there is nothing to choose
    kind: str | UnsetType = UNSET  # "diffusion" or "autoregressive"
    # The parameters that depend on the model and that this one honours; absent until its engine has told.
    capabilities: list[str] | UnsetType = UNSET
    tools: str | UnsetType = UNSET  # the format of its tool calls; absent where it makes none


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    object: str = "list"
    data: list[Model]


def model_of(name: str, card: ModelCard | None) -> Model:
    if card is None:
        return Model(id=name, created=0)
    return Model(
        id=name,
        created=card.created,
        max_model_len=card.context_length,
        decoding=_decoding(card.decoding) if card.decoding else UNSET,
        kind="autoregressive" if card.is_autoregressive else "diffusion",
        capabilities=UNSET if card.capabilities is None else card.capabilities,
        tools=card.tools or UNSET,
    )


def _decoding(card: DecodingCard) -> Decoding:
    modes = {name: _decision(mode) for name, mode in card.modes.items()}
    return Decoding(_decision(card.default), modes, card.algorithms, card.sampling)


def _decision(decision: Decision) -> dict[str, Any]:
    return {"algorithm": decision.algorithm, **decision.parameters}
