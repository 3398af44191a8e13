"""/admin/workers"""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from dllm_stack.queue import PoolQueue, WorkerStatus
from gateway.admin.common import Nothing, TheGateway, none_such, queues_of
from gateway.fields.validation import invalid
from gateway.gateway import Gateway

router = APIRouter(prefix="/admin/workers", tags=["workers"])


class Worker(BaseModel):
    id: str
    object: Literal["worker"] = "worker"
    pool: str
    pod: str | None
    state: str  # as the worker says: loading | ready | draining; or unreadable: it is of another version
    slots: int
    running: int
    load_tokens: int
    failures: int
    set_aside_until: float | None  # Unix seconds
    paused: bool
    draining: bool  # by order


class Workers(BaseModel):
    object: Literal["list"] = "list"
    data: list[Worker]


@router.get("")
async def list_workers(gateway: TheGateway) -> Workers:
    """The live ones."""
    queues = await queues_of(gateway)
    return Workers(data=[_worker(status) for queue in queues for status in await queue.workers()])


@router.post("/{worker}/pause")
async def pause_worker(worker: str, gateway: TheGateway, body: Nothing | None = None) -> Worker:
    """It gets no more jobs until it is resumed. Those that it runs go on."""
    queue = await _pool_of(gateway, worker)
    await queue.pause_worker(worker)
    return await _retrieve(queue, worker)


@router.post("/{worker}/resume")
async def resume_worker(worker: str, gateway: TheGateway, body: Nothing | None = None) -> Worker:
    """Takes back `pause`, not `drain`."""
    queue = await _pool_of(gateway, worker)
    if not await queue.resume_worker(worker):
        raise invalid(
            None,
            f"cannot resume worker {worker}: it was told to drain, and only starting it anew undoes that",
        )
    return await _retrieve(queue, worker)


@router.post("/{worker}/drain")
async def drain_worker(worker: str, gateway: TheGateway, body: Nothing | None = None) -> Worker:
    """It gets no more jobs until it has left. Those that it runs go on. There is no way back."""
    queue = await _pool_of(gateway, worker)
    await queue.drain_worker(worker)
    return await _retrieve(queue, worker)


async def _pool_of(gateway: Gateway, worker: str) -> PoolQueue:
    for queue in await queues_of(gateway):
        if any(status.card.id == worker for status in await queue.workers()):
            return queue
    raise none_such("live worker", worker)


async def _retrieve(queue: PoolQueue, worker: str) -> Worker:
    for status in await queue.workers():
        if status.card.id == worker:
            return _worker(status)
    raise none_such("live worker", worker)


def _worker(status: WorkerStatus) -> Worker:
    card = status.card
    return Worker(
        id=card.id,
        pool=card.pool,
        pod=card.pod,
        state=card.state,
        slots=card.slots,
        running=status.running,
        load_tokens=status.load,
        failures=status.failures,
        set_aside_until=status.set_aside_until,
        paused=status.paused,
        draining=status.draining,
    )
