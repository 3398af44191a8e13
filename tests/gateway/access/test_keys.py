"""API keys at the gateway: what answers without one, and what one opens."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from dllm_stack.keys import Created, KeyStore
from dllm_stack.redis import Connections
from dllm_stack.settings import AccessSettings, Settings
from gateway.access import OPEN
from tests.gateway.access.kit import (
    BODIES,
    CHAT,
    assert_unauthorized,
    bearer,
    caught_up,
    every_endpoint,
    refusals,
)
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, serving, until


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
    answer = await asyncio.wait_for(reader.readuntil(b"}}"), 120)
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


async def test_no_key_is_asked_for_when_keys_are_off(
    settings: Settings, connections: Connections, answering: FakeWorker
) -> None:
    async with serving(settings.model_copy(update={"access": AccessSettings()})) as served:
        for headers in ({}, bearer("anything"), {"Authorization": "Basic x"}):
            assert (await served.http.get("/v1/models", headers=headers)).status_code == 200
        assert not served.gateway.access.ring
