"""What the tenant of a key may use, in which order it is served, and what it has used."""

from __future__ import annotations

import asyncio

import httpx
import openai
import pytest

from dllm_stack.exposition import expose_text
from dllm_stack.keys import Created, KeyStore
from dllm_stack.messages import End, Tier
from dllm_stack.outcomes import Outcome
from gateway.metrics import MOST_TENANTS, Metrics
from tests.gateway.access.kit import (
    BODIES,
    CHAT,
    bearer,
    caught_up,
    every_endpoint,
    refusals,
    set_tenant,
)
from tests.gateway.fake_worker import PROMPT_TOKENS, FakeWorker
from tests.gateway.served import Served, until


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
        if name.startswith("dllm_tenant_") and value
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
