"""GET /v1/models: what it answers."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from dllm_stack.messages import ModelCard


class Model(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: str = "model"
    created: int  # Unix seconds; 0 until the model is loaded
    owned_by: str = "dllm-stack"
    max_model_len: int | UnsetType = UNSET  # tokens, as vLLM and SGLang name it


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    object: str = "list"
    data: list[Model]


def model_of(name: str, card: ModelCard | None) -> Model:
    if card is None:
        return Model(id=name, created=0)
    return Model(id=name, created=card.created, max_model_len=card.context_length)
