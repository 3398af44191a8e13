"""/admin/keys"""

from __future__ import annotations

import time
from typing import Annotated, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from dllm_stack.keys import Directory
from dllm_stack.tenants import KEY_ID, NAME, Key
from gateway.admin.common import TheGateway
from gateway.admin.guard import note
from gateway.admin.store import directory_of, silent_gateways, store_of
from gateway.fields.validation import Honoured, invalid

router = APIRouter(prefix="/admin/keys", tags=["keys"])

_LAST_SECOND = 253_402_300_799  # of the year 9999


class KeyAsked(Honoured):
    tenant: Annotated[str, Field(pattern=f"^{NAME}$")]
    label: Annotated[str, Field(max_length=200)] = ""
    expires: Annotated[int, Field(le=_LAST_SECOND)] | None = None  # Unix seconds
    admin: bool = False  # it opens this API, and nothing else


class KeyShown(BaseModel):
    id: str
    object: Literal["key"] = "key"
    tenant: str
    label: str
    admin: bool
    created: int  # Unix seconds
    ends: int | None  # Unix seconds, until when it opens at most
    state: Literal["open", "revoked", "expired"]


class KeyCreated(KeyShown):
    secret: str  # nobody can tell it again


class Keys(BaseModel):
    object: Literal["list"] = "list"
    data: list[KeyShown]


class KeyDeleted(BaseModel):
    id: str
    object: Literal["key.deleted"] = "key.deleted"
    silent_gateways: int  # that may let it in yet, for half a minute at most


@router.get("")
async def list_keys(gateway: TheGateway) -> Keys:
    directory, now = await directory_of(gateway), time.time()
    keys = sorted(directory.keys.values(), key=lambda key: (key.tenant, key.created, key.id))
    return Keys(data=[_shown(key, directory, now) for key in keys])


@router.post("")
async def create_key(body: KeyAsked, request: Request, response: Response, gateway: TheGateway) -> KeyCreated:
    """The answer is the only place where its secret ever is. A gateway knows the key within a second."""
    store, now = store_of(gateway), time.time()
    if body.expires is not None and body.expires <= now:
        raise invalid("expires", "must lie ahead, in Unix seconds")
    directory = await directory_of(gateway)
    if body.tenant not in directory.tenants:  # a slip would make a tenant without limits
        raise invalid("tenant", f"must be one that there is: PUT /admin/tenants/{body.tenant} makes one")
    secret, key = await store.create(**body.model_dump())
    note(request, created=key.id, tenant=key.tenant, admin=key.admin)
    response.headers["cache-control"] = "no-store"
    return KeyCreated(**_shown(key, Directory(tenants=directory.tenants), now).model_dump(), secret=secret)


@router.delete("/{key}")
async def revoke_key(key: Annotated[str, Path(pattern=f"^{KEY_ID}$")], gateway: TheGateway) -> KeyDeleted:
    """It opens nothing any more, on no gateway that is heard of; also if this Redis does not know it."""
    store = store_of(gateway)
    return KeyDeleted(id=key, silent_gateways=await silent_gateways(store, await store.revoke([key])))


def _shown(key: Key, directory: Directory, now: float) -> KeyShown:
    refusal = directory.state(key, now)
    return KeyShown(
        id=key.id,
        tenant=key.tenant,
        label=key.label,
        admin=key.admin,
        created=key.created,
        ends=directory.end(key),
        state="open" if refusal is None else "expired" if refusal == "expired" else "revoked",
    )
