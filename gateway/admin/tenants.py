"""/admin/tenants"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Path
from pydantic import BaseModel, Field
from starlette.requests import Request

from dllm_stack.messages import Tier
from dllm_stack.tenants import LEAST_WEIGHT, MOST_WEIGHT, NAME, Tenant
from dllm_stack.tenants import Limits as TenantLimits
from gateway.admin.common import TheGateway, none_such
from gateway.admin.guard import note
from gateway.admin.store import directory_of, silent_gateways, store_of
from gateway.fields.validation import Honoured

router = APIRouter(prefix="/admin/tenants", tags=["tenants"])

Name = Annotated[str, Path(pattern=f"^{NAME}$")]
_Limit = Annotated[int, Field(ge=1, le=10**12)]


class LimitsAsked(Honoured):
    requests_per_minute: _Limit | None = None
    tokens_per_minute: _Limit | None = None
    concurrency: _Limit | None = None


class TenantAsked(Honoured):
    """All of it: what is left out is as of a new tenant."""

    weight: Annotated[float, Field(ge=LEAST_WEIGHT, le=MOST_WEIGHT)] | None = None
    tiers: (
        Annotated[list[Literal["priority", "default", "flex"]], Field(min_length=1, max_length=3)] | None
    ) = None
    models: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | None = None
    limits: LimitsAsked = LimitsAsked()


class Limits(BaseModel):
    requests_per_minute: int | None
    tokens_per_minute: int | None
    concurrency: int | None


class TenantShown(BaseModel):
    id: str
    object: Literal["tenant"] = "tenant"
    weight: float | None
    tiers: list[Tier] | None
    models: list[str] | None
    limits: Limits


class Tenants(BaseModel):
    object: Literal["list"] = "list"
    data: list[TenantShown]


class TenantDeleted(BaseModel):
    id: str
    object: Literal["tenant.deleted"] = "tenant.deleted"
    revoked_keys: list[str]
    silent_gateways: int  # that may let these in yet, for half a minute at most


@router.get("")
async def list_tenants(gateway: TheGateway) -> Tenants:
    tenants = (await directory_of(gateway)).tenants
    return Tenants(data=[_shown(tenants[name]) for name in sorted(tenants)])


@router.get("/{name}")
async def retrieve_tenant(name: Name, gateway: TheGateway) -> TenantShown:
    tenant = (await directory_of(gateway)).tenants.get(name)
    if tenant is None:
        raise none_such("tenant", name)
    return _shown(tenant)


@router.put("/{name}")
async def set_tenant(name: Name, body: TenantAsked, request: Request, gateway: TheGateway) -> TenantShown:
    """Makes a tenant, or replaces what it may do."""
    asked = body.model_dump()
    tenant = msgspec.convert({"name": name, **asked}, Tenant)
    note(request, to=body.model_dump(exclude_none=True))
    await store_of(gateway).set_tenant(tenant)
    return _shown(tenant)


@router.delete("/{name}")
async def delete_tenant(name: Name, request: Request, gateway: TheGateway) -> TenantDeleted:
    """Revokes its keys too, even those that this Redis does not know."""
    store = store_of(gateway)
    deleted = await store.delete_tenant(name)
    note(request, revoked=deleted.key_ids)
    silent = await silent_gateways(store, deleted.change)
    return TenantDeleted(id=name, revoked_keys=sorted(deleted.key_ids), silent_gateways=silent)


def _shown(tenant: Tenant) -> TenantShown:
    limits = {name: getattr(tenant.limits, name) for name in TenantLimits.__struct_fields__}
    return TenantShown(
        id=tenant.name,
        weight=tenant.weight,
        tiers=tenant.tiers,
        models=tenant.models,
        limits=Limits(**limits),
    )
