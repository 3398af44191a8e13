"""What people see of a queue."""

from __future__ import annotations

import time

from msgspec.structs import replace

from dllm_stack.messages import Tier, WorkerCard
from dllm_stack.queue import TenantStatus
from dllm_stack.queue.figures import UNREADABLE
from dllm_stack.redis import Connections
from tests.queue.kit import BEGINNING, BLOCK, POOL, PREFIX, WatchedQueue, beat, id_of, job, pass_time, patient


async def test_open_jobs_are_listed(connections: Connections) -> None:
    queue = WatchedQueue(connections, POOL, patient())
    await beat(queue, slots=1)
    await queue.admit(job(1, tenant="acme", timeout_s=600, max_tokens=100))
    await queue.dispatch()
    await queue.commit("w", id_of(1), 1, BEGINNING, BLOCK)
    await queue.admit(job(2, tier=Tier.FLEX))
    await queue.admit(job(3))
    await pass_time(connections, 70)

    [running] = await queue.running(10)
    assert (running.id, running.tenant, running.tier, running.state) == (
        id_of(1),
        "acme",
        "default",
        "running",
    )
    assert (running.worker, running.attempt, running.committed) == ("w", 1, 3)
    assert (running.estimate, running.gateway, running.cancelled) == (100, "g", False)
    assert 70 <= running.age_s < 130
    assert running.deadline is not None
    assert abs(running.deadline - (time.time() + 530)) < 60

    waiting = await queue.waiting(10)
    assert [(status.id, status.worker) for status in waiting] == [(id_of(3), None), (id_of(2), None)]
    assert [status.deadline for status in waiting] == [None, None]
    assert [status.id for status in await queue.waiting(1)] == [id_of(3)]

    shown = await queue.show(id_of(1))
    assert shown is not None
    status, shown_job = shown
    assert replace(status, age_s=0.0) == replace(running, age_s=0.0)
    assert shown_job == job(1, tenant="acme", timeout_s=600, max_tokens=100)
    assert await queue.show(id_of(9)) is None
    await queue.cancel(id_of(1))
    assert [status.cancelled for status in await queue.running(10)] == [True]


async def test_workers_are_listed(connections: Connections) -> None:
    queue = WatchedQueue(connections, POOL, patient())
    await beat(queue, slots=2)
    await queue.admit(job(1, max_tokens=100))
    await queue.dispatch()
    [status] = await queue.workers()
    assert (status.card.id, status.card.slots, status.running, status.load) == ("w", 2, 1, 100)
    assert (status.failures, status.set_aside_until, status.draining) == (0, None, False)


async def test_tenants_are_listed(connections: Connections) -> None:
    queue = WatchedQueue(connections, POOL, patient())
    assert await queue.tenants(9) == []
    await beat(queue, slots=1)
    await queue.admit(job(1, tenant="acme"))
    await queue.dispatch()
    await queue.admit(job(2, tenant="b:c"))
    await queue.admit(job(3, tenant="b:c", tier=Tier.FLEX))
    [acme, other] = await queue.tenants(9)
    assert acme == TenantStatus("acme", waiting=0, waiting_bytes=0, running=1)
    assert other == TenantStatus(
        "b:c", waiting=2, waiting_bytes=(await queue.depth()).waiting_bytes, running=0
    )


async def test_of_many_tenants_the_largest_are_listed(connections: Connections) -> None:
    queue = WatchedQueue(connections, POOL, patient())
    await beat(queue, slots=3)
    for number, tenant in enumerate("aab"):
        await queue.admit(job(number, tenant=tenant))
    await queue.dispatch()
    for number, tenant in enumerate("cdd", 10):
        await queue.admit(job(number, tenant=tenant))
    assert [(found.tenant, found.waiting, found.running) for found in await queue.tenants(1)] == [
        ("a", 0, 2),
        ("d", 2, 0),
    ]


async def test_what_another_version_wrote_is_marked(connections: Connections) -> None:
    queue = WatchedQueue(connections, POOL, patient())
    await beat(queue, slots=2)
    await queue.admit(job(1))
    await connections.commands.hset(PREFIX + "worker:w", "card", b"\x81\xa1x\x01")
    await connections.commands.set(PREFIX + "body:" + id_of(1), b"\x81\xa1x\x01")
    [status] = await queue.workers()
    assert status.card == WorkerCard(id="w", pool=POOL, slots=2, state=UNREADABLE)
    shown = await queue.show(id_of(1))
    assert shown is not None
    assert (shown[0].id, shown[1]) == (id_of(1), None)
