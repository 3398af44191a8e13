"""API keys at the gateway: what answers without one, and what each opens."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from dllm_stack.exposition import expose_text
from dllm_stack.keys import Created, KeyFile, KeyRing, KeyStore
from dllm_stack.keys.store import LEASE_S
from dllm_stack.messages import End, Tier
from dllm_stack.outcomes import Outcome
from dllm_stack.redis import Connections
from dllm_stack.settings import AccessSettings, Settings
from gateway.access import OPEN
from gateway.metrics import MOST_TENANTS, Metrics
from tests.gateway.fake_worker import PROMPT_TOKENS, FakeWorker
from tests.gateway.served import RestartableRedis, Served, alone, serving, until
from tests.keys.kit import pass_time

CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"model": "tiny", "prompt": "Hi"},
    "/generate": {"text": "Hi"},
}
every_endpoint = pytest.mark.parametrize("path", BODIES)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"access": AccessSettings(keys="redis")})


@pytest.fixture
async def store(connections: Connections) -> KeyStore:
    await pass_time(connections)
    return KeyStore(connections)


@pytest.fixture
async def key(store: KeyStore) -> Created:
    return await store.create("acme")


@pytest.fixture
async def served(key: Created, settings: Settings) -> AsyncIterator[Served]:
    async with serving(settings) as served:
        await until(lambda: served.gateway.access.ready)
        yield served


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


async def caught_up(served: Served) -> KeyRing:
    """Returns when the gateway knows what is there now."""
    ring = served.gateway.access.ring
    assert ring is not None
    for _ in range(2):  # a reading under way may have begun before
        await ring.refresh()
    return ring


async def set_tenant(served: Served, store: KeyStore, **changes: Any) -> None:
    """Returns when the gateway has it in force."""
    tenant = await store.change_tenant("acme", changes)
    ring = await caught_up(served)
    assert ring.tenant("acme") == tenant


async def refusals(served: Served) -> dict[str, float]:
    return {
        labels["reason"]: value
        for name, labels, value in await served.samples()
        if name == "dllm_access_refused_total"
    }


def assert_unauthorized(response: httpx.Response) -> str:
    assert response.status_code == 401, response.text
    assert response.headers["www-authenticate"] == 'Bearer realm="dllm-stack"'
    assert response.headers["x-request-id"]
    error = response.json()["error"]
    message: str = error.pop("message")
    assert error == {"type": "authentication_error", "param": None, "code": "invalid_api_key"}
    return message


async def test_no_route_answers_without_a_key(served: Served, answering: FakeWorker) -> None:
    app: Any = served.server.config.app
    paths = {*app.openapi()["paths"], app.openapi_url}
    paths |= {
        "/nowhere",
        "/v1/models/tiny",
        "/v1//models",
        "/healthz/",
        "/metrics/x",
        "/HEALTHZ",
        "/%2e",
    }
    closed = {path.replace("{name:path}", "x") for path in paths} - OPEN
    assert closed >= {*BODIES, "/v1/models", "/openapi.json"}
    for path in closed:
        for method in ("GET", "POST", "HEAD", "OPTIONS", "DELETE"):
            response = await served.http.request(method, path)
            assert response.status_code == 401, (method, path)
    for path in OPEN:
        assert (await served.http.get(path)).status_code != 401, path


@every_endpoint
async def test_a_key_opens_every_endpoint(
    served: Served, answering: FakeWorker, key: Created, path: str
) -> None:
    response = await served.http.post(path, json=BODIES[path], headers=bearer(key.secret))
    assert response.status_code == 200, response.text
    lower = {"authorization": f"bearer  {key.secret}"}
    assert (await served.http.post(path, json=BODIES[path], headers=lower)).status_code == 200


async def test_the_sdk_with_a_key_and_without(served: Served, answering: FakeWorker, key: Created) -> None:
    completion = await served.openai.with_options(api_key=key.secret).chat.completions.create(**CHAT)
    assert completion.choices[0].message.content == "Hello world"
    with pytest.raises(openai.AuthenticationError) as error:
        await served.openai.chat.completions.create(**CHAT)
    assert error.value.code == "invalid_api_key"


async def test_who_was_refused_is_not_told_why(served: Served, store: KeyStore, key: Created) -> None:
    revoked = await store.create("acme")
    await store.revoke([revoked.key.id])
    expired = await store.create("acme", expires=int(time.time()))
    other = "A" if key.secret[-1] != "A" else "B"
    wrong = [key.secret[:-1] + other, revoked.secret, expired.secret, key.key.id, key.key.digest]
    await caught_up(served)
    told = {
        assert_unauthorized(await served.http.get("/v1/models", headers=bearer(secret))) for secret in wrong
    }
    assert told == {"This API key is not valid."}
    assert await refusals(served) == {"unknown": 3, "revoked": 1, "expired": 1}


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Basic {}", "{}", "Bearer {} x", "Bearer\t{}", 'Bearer "{}"', "Bearer {},", "Bearer ü"],
)
async def test_what_is_no_bearer_token(served: Served, key: Created, value: str) -> None:
    header = value.format(key.secret).encode("latin-1")
    message = assert_unauthorized(await served.http.get("/v1/models", headers={b"Authorization": header}))
    assert key.secret not in message


async def test_a_key_counts_in_its_header_only_and_once(served: Served, key: Created) -> None:
    assert_unauthorized(
        await served.http.get("/v1/models", params={"api_key": key.secret, "key": key.secret})
    )
    for name in ("X-API-Key", "api-key", "Proxy-Authorization", "Cookie"):
        assert_unauthorized(await served.http.get("/v1/models", headers={name: f"Bearer {key.secret}"}))
    twice = [("Authorization", f"Bearer {key.secret}")] * 2
    assert_unauthorized(await served.http.get("/v1/models", headers=twice))


async def test_the_refusal_comes_before_the_body(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 90000\r\nexpect: 100-continue"
    writer.write(f"{head}\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.readuntil(b"}}"), 20)
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"100 Continue" not in answer
    assert b"connection: close" in answer
    writer.close()


async def test_a_key_that_is_revoked_while_the_body_is_sent(
    served: Served, store: KeyStore, key: Created, answering: FakeWorker
) -> None:
    begun, revoked = asyncio.Event(), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        content = json.dumps(CHAT).encode()
        yield content[:9]
        begun.set()
        await revoked.wait()
        yield content[9:]

    request = asyncio.create_task(
        served.http.post("/v1/chat/completions", content=body(), headers=bearer(key.secret))
    )
    await begun.wait()
    await until(lambda: served.gateway.ledger.open)
    change = await store.revoke([key.key.id])

    async def in_force() -> bool:
        return not await store.behind(change)

    await until(in_force)
    revoked.set()
    assert_unauthorized(await request)


async def test_the_tenant_is_the_keys(
    served: Served, store: KeyStore, worker: FakeWorker, key: Created
) -> None:
    await set_tenant(served, store, weight=2.5)
    for headers in ({}, {"X-Tenant-ID": "acme"}):
        request = asyncio.create_task(
            served.http.post(
                "/v1/completions", json=BODIES["/v1/completions"], headers=bearer(key.secret) | headers
            )
        )
        run = await worker.claimed()
        assert (run.job.tenant, run.job.weight) == ("acme", 2.5)
        await run.finish()
        assert (await request).status_code == 200
    other = await served.http.get("/v1/models", headers=bearer(key.secret) | {"X-Tenant-ID": "other"})
    assert other.status_code == 403
    error = other.json()["error"]
    assert (error["code"], error["type"], error["param"]) == (
        "permission_denied",
        "permission_error",
        "X-Tenant-ID",
    )


@every_endpoint
async def test_a_model_that_the_tenant_may_not_use(
    served: Served, store: KeyStore, answering: FakeWorker, key: Created, path: str
) -> None:
    await set_tenant(served, store, models=["another"])
    response = await served.http.post(path, json=BODIES[path], headers=bearer(key.secret))
    assert response.status_code == 403
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("permission_denied", "model")
    assert "'tiny'" in error["message"]
    assert await refusals(served) == {"model": 1}


async def test_a_tenant_sees_its_models_only(
    served: Served, store: KeyStore, answering: FakeWorker, key: Created
) -> None:
    await answering.announce("another")
    client = served.openai.with_options(api_key=key.secret)

    async def listed() -> list[str]:
        return [model.id for model in (await client.models.list()).data]

    async def both() -> bool:
        return await listed() == ["another", "tiny"]

    await until(both)
    await set_tenant(served, store, models=["tiny", "not here"])
    assert await listed() == ["tiny"]
    assert (await client.models.retrieve("tiny")).id == "tiny"
    with pytest.raises(openai.PermissionDeniedError, match="'another'"):
        await client.models.retrieve("another")


async def test_one_that_may_use_a_single_model_need_not_name_it(
    served: Served, store: KeyStore, answering: FakeWorker, key: Created
) -> None:
    async def asked() -> httpx.Response:
        return await served.http.post("/generate", json={"text": "Hi"}, headers=bearer(key.secret))

    await answering.announce("another")
    await until(lambda: len(served.gateway.catalogue._models) == 2)
    assert (await asked()).json()["error"]["message"] == "model is required: there are 2 of them here."
    await set_tenant(served, store, models=["tiny"])
    assert (await asked()).json()["text"] == "Hello world"


@pytest.mark.parametrize(
    ("may", "asked", "served_as"),
    [
        ([Tier.FLEX], None, Tier.FLEX),
        ([Tier.FLEX], "auto", Tier.FLEX),
        ([Tier.FLEX], "default", None),
        ([Tier.FLEX, Tier.PRIORITY], None, Tier.PRIORITY),
        ([Tier.FLEX, Tier.DEFAULT], "auto", Tier.DEFAULT),
        ([Tier.FLEX, Tier.DEFAULT], "priority", None),
        (None, "priority", Tier.PRIORITY),
    ],
)
async def test_the_tiers_that_a_tenant_may_ask_for(
    served: Served,
    store: KeyStore,
    worker: FakeWorker,
    key: Created,
    may: list[Tier] | None,
    asked: str | None,
    served_as: Tier | None,
) -> None:
    await set_tenant(served, store, tiers=may)
    body = CHAT if asked is None else CHAT | {"service_tier": asked}
    request = asyncio.create_task(
        served.http.post("/v1/chat/completions", json=body, headers=bearer(key.secret))
    )
    if served_as is None:
        response = await request
        assert response.status_code == 403
        error = response.json()["error"]
        assert (error["code"], error["param"]) == ("permission_denied", "service_tier")
        assert asked in error["message"]
        return
    run = await worker.claimed()
    assert run.job.tier is served_as
    await run.finish()
    assert (await request).json().get("service_tier") == (asked and served_as)


async def test_what_a_tenant_has_used_is_counted(
    served: Served, store: KeyStore, answering: FakeWorker, key: Created
) -> None:
    other = await store.create("other")
    await caught_up(served)
    for secret, body in ((key.secret, CHAT), (key.secret, CHAT), (other.secret, CHAT), (key.secret, {})):
        await served.http.post("/v1/chat/completions", json=body, headers=bearer(secret))
    counted = {
        (name, labels["tenant"], labels.get("outcome")): value
        for name, labels, value in await served.samples()
        if name.startswith("dllm_tenant_")
    }
    tokens = PROMPT_TOKENS + len("Hello world")
    assert counted == {
        ("dllm_tenant_requests_total", "acme", "completed"): 2,
        ("dllm_tenant_requests_total", "acme", "rejected"): 1,
        ("dllm_tenant_requests_total", "other", "completed"): 1,
        ("dllm_tenant_tokens_total", "acme", None): 2 * tokens,
        ("dllm_tenant_tokens_total", "other", None): tokens,
    }


def test_tenants_are_too_many_for_series_of_their_own() -> None:
    metrics = Metrics()
    for number in range(MOST_TENANTS + 5):
        metrics.count_tenant(f"t{number}", End(outcome=Outcome.COMPLETED), 3)
    told = expose_text(metrics.registry).decode()
    assert told.count("dllm_tenant_tokens_total{") == MOST_TENANTS + 1
    assert 'dllm_tenant_tokens_total{tenant="other"} 15.0' in told


async def test_an_admin_key_opens_the_admin_api_and_nothing_else(served: Served, store: KeyStore) -> None:
    admin = await store.create("ops", admin=True)
    await caught_up(served)
    response = await served.http.get("/v1/models", headers=bearer(admin.secret))
    assert (response.status_code, response.json()["error"]["code"]) == (403, "permission_denied")


async def test_a_new_key_opens_and_a_revoked_one_does_not(
    served: Served, store: KeyStore, answering: FakeWorker
) -> None:
    new = await store.create("acme")

    async def status() -> int:
        return (await served.http.get("/v1/models", headers=bearer(new.secret))).status_code

    async def opens() -> bool:
        return await status() == 200

    await until(opens)
    await store.revoke([new.key.id])

    async def opens_not() -> bool:
        return await status() == 401

    await until(opens_not)


async def test_weights_share_the_workers(
    served: Served, store: KeyStore, key: Created, worker: FakeWorker
) -> None:
    """One slot, and two tenants of which one has three times the weight: it gets three of four turns."""
    other = await store.create("heavy")
    await store.change_tenant("heavy", {"weight": 3.0})
    await set_tenant(served, store, weight=1.0)
    await worker.set_slots(0)
    body = BODIES["/v1/completions"] | {"max_tokens": 50}
    requests = [
        asyncio.create_task(served.http.post("/v1/completions", json=body, headers=bearer(each.secret)))
        for each in [key, other] * 12
    ]

    async def all_wait() -> bool:
        return (await worker.queue.depth()).waiting == len(requests)

    await until(all_wait)
    await worker.set_slots(1)
    turns = []
    for _ in requests:
        run = await worker.claimed()
        turns.append(run.job.tenant)
        await run.commit("x" * 50, tokens=50)
        await run.finish("length")
    await asyncio.gather(*requests)
    assert turns[:12].count("heavy") in (8, 9, 10), turns


async def test_nothing_that_is_logged_or_told_holds_a_secret(
    served: Served, store: KeyStore, key: Created, answering: FakeWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    await store.revoke([(revoked := await store.create("acme")).key.id])
    told = ""
    for secret in (key.secret, revoked.secret, key.secret + "x"):
        for path in (*BODIES, "/nowhere"):
            for body in (b"{", json.dumps(BODIES.get(path, {}) | {"x": 1}).encode()):
                response = await served.http.post(path, content=body, headers=bearer(secret))
                told += response.text + str(response.headers)
    told += (await served.http.get("/metrics")).text
    logged = capfd.readouterr()
    for each in (key, revoked):
        assert each.secret[20:] not in told + logged.out + logged.err
        assert each.key.digest not in told + logged.out + logged.err


async def test_while_redis_is_away(redis: RestartableRedis, settings: Settings) -> None:
    """Those known may ask for what needs no Redis; generation says 503, as it does without keys."""
    async with alone(redis, settings) as (served, worker):
        store = KeyStore(worker.queue._connections)
        worker.blocks = ["Hi"]
        key, revoked = await store.create("acme"), await store.create("acme")
        await store.revoke([revoked.key.id])
        ring = await caught_up(served)
        known = bearer(key.secret)

        async def serves() -> bool:
            return (
                await served.http.post("/generate", json={"text": "Hi"}, headers=known)
            ).status_code == 200

        await until(serves)
        redis.stop()
        await until(lambda: ring.age_s > 0.8)
        assert (await served.http.get("/v1/models", headers=known)).status_code == 200
        refused = await served.http.post("/generate", json={"text": "Hi"}, headers=known)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "queue_unavailable")
        assert_unauthorized(await served.http.get("/v1/models", headers=bearer(revoked.secret)))
        new = await served.http.get("/v1/models", headers=bearer(key.secret[:-1]))
        assert (new.status_code, new.headers["retry-after"]) == (503, "5")
        assert ring._read_at is not None
        ring._read_at -= LEASE_S
        late = await served.http.get("/v1/models", headers=known)
        assert late.status_code == 503
        ring._read_at += LEASE_S
        redis.start()  # empty
        await until(serves)
        assert_unauthorized(await served.http.post("/generate", json={}, headers=bearer(revoked.secret)))
        [lost] = [value for name, _, value in await served.samples() if name == "dllm_access_keys_lost"]
        assert lost == 1


async def test_a_key_file(settings: Settings, tmp_path: Path, answering: FakeWorker) -> None:
    file = KeyFile(tmp_path / "keys.yaml")
    key = await file.create("acme")
    own = settings.model_copy(update={"access": AccessSettings(keys=str(file.path))})
    async with serving(own) as served:

        async def status() -> int:
            return (await served.http.get("/v1/models", headers=bearer(key.secret))).status_code

        async def opens() -> bool:
            return await status() == 200

        await until(opens)
        file.path.write_text("keys: [")

        async def broken() -> bool:
            return ("dllm_access_file_broken", {}, 1.0) in await served.samples()

        await until(broken)
        assert await status() == 200
        file.path.write_text("keys: []")

        async def opens_not() -> bool:
            return await status() == 401

        await until(opens_not)


async def test_no_key_is_asked_for_when_keys_are_off(
    settings: Settings, connections: Connections, answering: FakeWorker
) -> None:
    async with serving(settings.model_copy(update={"access": AccessSettings()})) as served:
        for headers in ({}, bearer("anything"), {"Authorization": "Basic x"}):
            assert (await served.http.get("/v1/models", headers=headers)).status_code == 200
        assert not served.gateway.access.ring
