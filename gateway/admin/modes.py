"""/admin/modes"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from fastapi import APIRouter
from pydantic import BaseModel

from dllm_stack.queue import Registry
from gateway.admin.common import TheGateway
from gateway.models.protocol import model_of

router = APIRouter(prefix="/admin/modes", tags=["modes"])


class Decoding(BaseModel):
    default: dict[str, Any]
    modes: dict[str, dict[str, Any]]
    algorithms: dict[str, list[str]]
    sampling: list[str]


class Modes(BaseModel):
    pool: str
    object: Literal["modes"] = "modes"
    decoding: Decoding | None = None  # until a worker has loaded the model, or where nothing is to choose


class ModesList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Modes]


@router.get("")
async def list_modes(gateway: TheGateway) -> ModesList:
    """How each pool decodes: `default`, and what a request may choose."""
    pools = await Registry(gateway.connections).pools()
    cards = [(name, msgspec.to_builtins(model_of(name, card))) for name, card in sorted(pools.items())]
    return ModesList(data=[Modes(pool=name, decoding=card.get("decoding")) for name, card in cards])
