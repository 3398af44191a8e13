"""/admin/pools"""

from __future__ import annotations

from typing import Literal

import msgspec
from fastapi import APIRouter
from pydantic import BaseModel

from dllm_stack.messages import Tier
from dllm_stack.queue import PoolQueue
from gateway.admin.common import Nothing, TheGateway, none_such, queues_of
from gateway.gateway import Gateway

MOST_TENANTS = 100

router = APIRouter(prefix="/admin/pools", tags=["pools"])


class TierDepth(BaseModel):
    waiting: int
    waiting_bytes: int
    oldest_s: float


class Pool(BaseModel):
    id: str
    object: Literal["pool"] = "pool"
    paused: bool
    draining: bool
    waiting: int
    waiting_bytes: int
    oldest_s: float
    running: int
    slots: int
    workers: int
    set_aside: int
    dead_letters: int
    tiers: dict[Tier, TierDepth]


class Pools(BaseModel):
    object: Literal["list"] = "list"
    data: list[Pool]


class OpenJobs(BaseModel):
    tenant: str
    waiting: int
    waiting_bytes: int
    running: int


class PoolWithTenants(Pool):
    tenants: list[OpenJobs]


@router.get("")
async def list_pools(gateway: TheGateway) -> Pools:
    return Pools(data=[await _pool(queue) for queue in await queues_of(gateway)])


@router.get("/{pool:path}")
async def retrieve_pool(pool: str, gateway: TheGateway) -> PoolWithTenants:
    """With its tenants: those that have the most jobs waiting or running."""
    queue = await _find(gateway, pool)
    tenants = [OpenJobs(**msgspec.to_builtins(status)) for status in await queue.tenants(MOST_TENANTS)]
    return PoolWithTenants(**(await _pool(queue)).model_dump(), tenants=tenants)


@router.post("/{pool:path}/pause")
async def pause_pool(pool: str, gateway: TheGateway, body: Nothing | None = None) -> Pool:
    """Jobs wait, new ones too, and none is dispatched. Those that run go on."""
    queue = await _find(gateway, pool)
    await queue.pause()
    return await _pool(queue)


@router.post("/{pool:path}/resume")
async def resume_pool(pool: str, gateway: TheGateway, body: Nothing | None = None) -> Pool:
    """Takes back `pause` and `drain`."""
    queue = await _find(gateway, pool)
    await queue.resume()
    return await _pool(queue)


@router.post("/{pool:path}/drain")
async def drain_pool(pool: str, gateway: TheGateway, body: Nothing | None = None) -> Pool:
    """New requests get 503 `pool_draining`. What waits is served, also where the pool was paused."""
    queue = await _find(gateway, pool)
    await queue.drain()
    return await _pool(queue)


async def _find(gateway: Gateway, pool: str) -> PoolQueue:
    for queue in await queues_of(gateway):
        if queue.pool == pool:
            return queue
    raise none_such("pool", pool)


async def _pool(queue: PoolQueue) -> Pool:
    return Pool(id=queue.pool, **msgspec.to_builtins(await queue.depth()))
