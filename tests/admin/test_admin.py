"""What the admin API tells and does, on two gateways over one Redis."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

from dllm_stack.decoding import Decision
from dllm_stack.keys import KeyStore
from dllm_stack.messages import DecodingCard, Tier
from dllm_stack.queue import PoolQueue, Registry
from dllm_stack.redis import Connections, RedisError
from dllm_stack.settings import Settings
from tests.admin.conftest import POOL, Admin, administered
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import RestartableRedis, until
from tests.queue.kit import job

BODY: dict[str, Any] = {"model": POOL, "prompt": "Hi"}


async def pools(admin: Admin) -> dict[str, dict[str, Any]]:
    return {pool["id"]: pool for pool in (await admin.http.get("/admin/pools")).json()["data"]}


async def workers(admin: Admin) -> dict[str, dict[str, Any]]:
    return {worker["id"]: worker for worker in (await admin.http.get("/admin/workers")).json()["data"]}


async def test_a_pool_is_paused_for_every_gateway(
    settings: Settings, secret: str, user: dict[str, str], worker: FakeWorker
) -> None:
    async with administered(settings, secret) as one, administered(settings, secret) as other:
        begun = asyncio.create_task(one.public.post("/v1/completions", json=BODY, headers=user))
        run = await worker.claimed()
        paused = await one.pool("pause")
        assert paused.status_code == 200
        assert (paused.json()["paused"], paused.json()["running"]) == (True, 1)
        held = asyncio.create_task(other.public.post("/v1/completions", json=BODY, headers=user))
        await until(lambda: waits(other))
        assert (await pools(other))[POOL]["paused"]
        await run.commit("Hello")
        await run.finish()
        assert (await begun).status_code == 200
        assert not held.done()
        assert not (await other.pool("resume")).json()["paused"]
        run = await worker.claimed()
        await run.finish()
        assert (await held).status_code == 200
        assert not (await pools(one))[POOL]["paused"]


async def waits(admin: Admin) -> bool:
    return bool((await pools(admin))[POOL]["waiting"] == 1)


async def test_a_pool_drains(admin: Admin, user: dict[str, str], worker: FakeWorker) -> None:
    begun = asyncio.create_task(admin.public.post("/v1/completions", json=BODY, headers=user))
    run = await worker.claimed()
    await admin.pool("pause")
    held = asyncio.create_task(admin.public.post("/v1/completions", json=BODY, headers=user))
    await until(lambda: waits(admin))
    drained = (await admin.pool("drain")).json()
    assert (drained["draining"], drained["paused"]) == (True, False)
    for path in ("/v1/completions", "/v1/chat/completions"):
        asked = (
            BODY
            if path == "/v1/completions"
            else {"model": POOL, "messages": [{"role": "user", "content": "Hi"}]}
        )
        refused = await admin.public.post(path, json=asked, headers=user)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
        assert refused.json() == {
            "error": {
                "message": f"'{POOL}' takes no new requests at present.",
                "type": "service_unavailable_error",
                "param": "model",
                "code": "pool_draining",
            }
        }
    for each in (run, await worker.claimed()):
        await each.finish()
    assert [(await request).status_code for request in (begun, held)] == [200, 200]
    assert ("completions", POOL, "rejected", "pool_draining") in await admin.served.outcomes()
    await admin.pool("resume")
    again = asyncio.create_task(admin.public.post("/v1/completions", json=BODY, headers=user))
    await (await worker.claimed()).finish()
    assert (await again).status_code == 200


async def test_what_is_told_of_pools(admin: Admin, worker: FakeWorker, queue: PoolQueue) -> None:
    await worker.announce("org/large")
    await queue.pause()
    await queue.admit(job(1, tenant="acme"))
    await queue.admit(job(2, tier=Tier.FLEX))
    listed = await pools(admin)
    assert list(listed) == ["org/large", POOL]
    pool = listed[POOL]
    assert (pool["object"], pool["waiting"], pool["running"], pool["slots"]) == ("pool", 2, 0, 2)
    assert {tier: of_tier["waiting"] for tier, of_tier in pool["tiers"].items()} == {
        "priority": 0,
        "default": 1,
        "flex": 1,
    }
    found = (await admin.http.get(f"/admin/pools/{POOL}")).json()
    assert found["waiting"] == 2
    assert [(each["tenant"], each["waiting"]) for each in found["tenants"]] == [("acme", 1), ("default", 1)]
    slashed = await admin.http.post("/admin/pools/org/large/drain")
    assert (slashed.json()["id"], slashed.json()["draining"]) == ("org/large", True)
    assert (await admin.http.get("/admin/pools/org/large")).json()["draining"]


async def test_a_worker_is_paused_resumed_and_drained(
    admin: Admin, worker: FakeWorker, queue: PoolQueue
) -> None:
    found = (await workers(admin))[worker.id]
    assert (found["pool"], found["state"], found["slots"], found["pod"]) == (POOL, "ready", 2, None)
    assert (found["paused"], found["draining"], found["set_aside_until"]) == (False, False, None)
    path = f"/admin/workers/{worker.id}"
    assert (await admin.http.post(f"{path}/pause")).json()["paused"]
    await queue.admit(job(1))
    assert await queue.dispatch() == []
    assert not (await admin.http.post(f"{path}/resume", json={})).json()["paused"]
    await (await worker.claimed()).finish()
    drained = (await admin.http.post(f"{path}/drain")).json()
    assert (drained["draining"], drained["paused"]) == (True, False)
    refused = await admin.http.post(f"{path}/resume")
    assert refused.status_code == 400
    assert "was told to drain" in refused.json()["error"]["message"]
    assert (await workers(admin))[worker.id]["draining"]


async def test_modes(admin: Admin, connections: Connections, settings: Settings) -> None:
    decoding = DecodingCard(
        default=Decision(algorithm="LowConfidence", parameters={"threshold": 0.9}),
        modes={"speed": Decision(algorithm="LowConfidence", parameters={"threshold": 0.5})},
        algorithms={"LowConfidence": ["threshold"]},
        sampling=["LowConfidence"],
    )
    async with FakeWorker(connections, settings.queue, decoding=decoding).working() as worker:
        await worker.announce("loading")
        listed = (await admin.http.get("/admin/modes")).json()["data"]
    assert listed == [
        {"pool": "loading", "object": "modes", "decoding": None},
        {
            "pool": POOL,
            "object": "modes",
            "decoding": {
                "default": {"algorithm": "LowConfidence", "threshold": 0.9},
                "modes": {"speed": {"algorithm": "LowConfidence", "threshold": 0.5}},
                "algorithms": {"LowConfidence": ["threshold"]},
                "sampling": ["LowConfidence"],
            },
        },
    ]


async def test_tenants(settings: Settings, secret: str) -> None:
    asked = {
        "weight": 2.5,
        "tiers": ["default", "flex"],
        "models": [POOL],
        "limits": {"requests_per_minute": 600, "concurrency": 8},
    }
    async with administered(settings, secret) as one, administered(settings, secret) as other:
        made = await one.http.put("/admin/tenants/acme", json=asked)
        limits = {"requests_per_minute": 600, "tokens_per_minute": None, "concurrency": 8}
        expected = {"id": "acme", "object": "tenant", **asked, "limits": limits}
        assert (made.status_code, made.json()) == (200, expected)
        assert (await other.http.get("/admin/tenants/acme")).json() == expected
        listed = (await other.http.get("/admin/tenants")).json()
        assert (listed["object"], [tenant["id"] for tenant in listed["data"]]) == (
            "list",
            ["acme", "operators"],
        )
        replaced = (await other.http.put("/admin/tenants/acme", json={})).json()
        assert (replaced["weight"], replaced["tiers"], replaced["models"]) == (None, None, None)
        assert set(replaced["limits"].values()) == {None}
        created = (await one.http.post("/admin/keys", json={"tenant": "acme"})).json()
        deleted = await one.http.delete("/admin/tenants/acme")
        assert deleted.json() == {
            "id": "acme",
            "object": "tenant.deleted",
            "revoked_keys": [created["id"]],
            "silent_gateways": 0,
        }
        assert (await other.http.get("/admin/tenants/acme")).status_code == 404


async def test_keys(settings: Settings, secret: str, worker: FakeWorker) -> None:
    expires = int(time.time()) + 1000
    async with administered(settings, secret) as one, administered(settings, secret) as other:
        await one.http.put("/admin/tenants/acme", json={})
        asked = {"tenant": "acme", "label": "CI", "expires": expires}
        answer = await one.http.post("/admin/keys", json=asked)
        assert answer.headers["cache-control"] == "no-store"
        created = answer.json()
        key_secret = created.pop("secret")
        assert created == {
            "id": key_secret[:19],
            "object": "key",
            "tenant": "acme",
            "label": "CI",
            "admin": False,
            "created": created["created"],
            "ends": expires,
            "state": "open",
        }
        listed = await other.http.get("/admin/keys")
        assert listed.json()["data"][0] == created
        assert [key["admin"] for key in listed.json()["data"]] == [False, True]
        assert "digest" not in listed.text
        headers = {"authorization": f"Bearer {key_secret}"}

        async def both_answer(expected: int) -> bool:
            answers = [await admin.public.get("/v1/models", headers=headers) for admin in (one, other)]
            return [answer.status_code for answer in answers] == [expected, expected]

        await until(partial(both_answer, 200))
        revoked = await other.http.delete(f"/admin/keys/{created['id']}")
        assert revoked.json() == {"id": created["id"], "object": "key.deleted", "silent_gateways": 0}
        assert await both_answer(401)
        states = {key["id"]: key["state"] for key in (await one.http.get("/admin/keys")).json()["data"]}
        assert states == {created["id"]: "revoked", secret[:19]: "open"}


async def test_gateways_that_have_not_heard_of_a_revocation_are_counted(
    admin: Admin, store: KeyStore
) -> None:
    await store.look("one that is silent since", "")
    key = (await store.create("acme")).key
    revoked = (await admin.http.delete(f"/admin/keys/{key.id}")).json()
    assert revoked["silent_gateways"] == 1


async def test_an_admin_key_can_make_another(admin: Admin) -> None:
    asked = {"tenant": "operators", "admin": True}
    created = (await admin.http.post("/admin/keys", json=asked)).json()
    headers = {"authorization": f"Bearer {created['secret']}"}

    async def opens() -> bool:
        return (await admin.http.get("/admin/pools", headers=headers)).status_code == 200

    await until(opens)


async def test_a_pool_with_a_key_of_another_type_is_an_error_that_says_so(
    admin: Admin, worker: FakeWorker, connections: Connections
) -> None:
    await connections.commands.set(f"dllm:{{{POOL}}}:dead", "a string")
    refused = await admin.http.get("/admin/pools")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "queue_unavailable")
    assert "WRONGTYPE" in refused.json()["error"]["message"]


async def test_redis_goes_and_comes_back_empty(settings: Settings) -> None:
    redis = RestartableRedis()
    own = settings.model_copy(
        update={"redis": settings.redis.model_copy(update={"url": redis.url, "timeout_s": 60})}
    )
    connections = Connections(own.redis)
    try:
        secret = (await KeyStore(connections).create("operators", admin=True)).secret
        queue = PoolQueue(connections, POOL, own.queue)
        async with administered(own, secret) as admin:
            await Registry(connections).publish(POOL, None)
            assert (await admin.pool("drain")).status_code == 200
            redis.stop()
            refused = await admin.pool("pause")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "queue_unavailable")
            assert refused.headers["retry-after"] == "5"
            redis.start()
            await until(lambda: back(connections))
            await Registry(connections).publish(POOL, None)
            assert not (await queue.depth()).draining
            # The gateway goes on knowing the key for a while.
            assert (await admin.pool("drain")).json()["draining"]
    finally:
        await connections.aclose()
        redis.close()


async def back(connections: Connections) -> bool:
    try:
        await connections.ping()
    except RedisError:
        return False
    return True
