"""Nothing of the admin API answers without an admin key, and whatever it refuses has OpenAI's shape."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from dllm_stack.keys import KeyFile, KeyStore
from dllm_stack.settings import AccessSettings, Settings
from gateway.admin import guard, pools
from gateway.admin.guard import MAX_BODY_BYTES
from gateway.gateway import Gateway
from tests.admin.conftest import Admin, administered
from tests.gateway.served import until

PATHS = [
    ("GET", "/admin/pools"),
    ("GET", "/admin/pools/tiny"),
    ("POST", "/admin/pools/tiny/pause"),
    ("GET", "/admin/workers"),
    ("POST", "/admin/workers/w/drain"),
    ("GET", "/admin/modes"),
    ("GET", "/admin/tenants"),
    ("PUT", "/admin/tenants/acme"),
    ("GET", "/admin/keys"),
    ("POST", "/admin/keys"),
    ("GET", "/openapi.json"),
    ("GET", "/metrics"),
    ("GET", "/healthz"),
    ("GET", "/"),
    ("GET", "/nothing"),
]

REFUSED = [
    ("PUT", "/admin/tenants/acme", b"{", (400, "invalid_json", None)),
    ("PUT", "/admin/tenants/acme", b"", (400, "invalid_value", None)),
    ("PUT", "/admin/tenants/acme", b"[]", (400, "invalid_value", None)),
    ("PUT", "/admin/tenants/acme", b"[" * 20_000, (400, "invalid_value", None)),
    ("PUT", "/admin/tenants/acme", b'{"wait": 1}', (400, "unsupported_parameter", "wait")),
    ("PUT", "/admin/tenants/acme", b'{"weight": "1"}', (400, "invalid_value", "weight")),
    ("PUT", "/admin/tenants/acme", b'{"weight": true}', (400, "invalid_value", "weight")),
    ("PUT", "/admin/tenants/acme", b'{"weight": 0}', (400, "invalid_value", "weight")),
    ("PUT", "/admin/tenants/acme", b'{"weight": 5e-324}', (400, "invalid_value", "weight")),
    ("PUT", "/admin/tenants/acme", b'{"weight": NaN}', (400, "invalid_value", "weight")),
    ("PUT", "/admin/tenants/acme", b'{"weight": 1e999}', (400, "invalid_value", "weight")),
    ("PUT", "/admin/tenants/acme", b'{"weight": ' + b"1" * 5000 + b"}", (400, "invalid_value", None)),
    ("PUT", "/admin/tenants/acme", b'{"tiers": []}', (400, "invalid_value", "tiers")),
    ("PUT", "/admin/tenants/acme", b'{"tiers": ["first"]}', (400, "invalid_value", "tiers[0]")),
    ("PUT", "/admin/tenants/acme", b'{"models": ["\\ud800"]}', (400, "invalid_value", "models[0]")),
    (
        "PUT",
        "/admin/tenants/acme",
        b'{"limits": {"rpm": 1}}',
        (400, "unsupported_parameter", "limits.rpm"),
    ),
    (
        "PUT",
        "/admin/tenants/acme",
        b'{"limits": {"concurrency": 0}}',
        (400, "invalid_value", "limits.concurrency"),
    ),
    ("PUT", "/admin/tenants/a%20b", b"{}", (400, "invalid_value", "name")),
    ("DELETE", "/admin/tenants/a%20b", b"", (400, "invalid_value", "name")),
    ("GET", "/admin/tenants/nobody", b"", (404, "not_found", None)),
    ("POST", "/admin/keys", b"{}", (400, "missing_required_parameter", "tenant")),
    ("POST", "/admin/keys", b'{"tenant": "nobody"}', (400, "invalid_value", "tenant")),
    ("POST", "/admin/keys", b'{"tenant": "operators", "expires": 1}', (400, "invalid_value", "expires")),
    (
        "POST",
        "/admin/keys",
        b'{"tenant": "operators", "expires": ' + b"9" * 30 + b"}",
        (400, "invalid_value", "expires"),
    ),
    ("POST", "/admin/keys", b'{"tenant": "operators", "admin": 1}', (400, "invalid_value", "admin")),
    ("DELETE", "/admin/keys/all", b"", (400, "invalid_value", "key")),
    ("POST", "/admin/pools/tiny/pause", b'{"for_s": 5}', (400, "unsupported_parameter", "for_s")),
    ("POST", "/admin/pools/huge/pause", b"", (404, "not_found", None)),
    ("GET", "/admin/pools/huge", b"", (404, "not_found", None)),
    ("POST", "/admin/workers/nobody/pause", b"", (404, "not_found", None)),
    ("POST", "/admin/workers/nobody/stop", b"", (404, "not_found", None)),
    ("DELETE", "/admin/pools", b"", (405, "method_not_allowed", None)),
]


def error_of(response: httpx.Response) -> tuple[int, str, str | None]:
    """Status, code and param of an error, which has all that OpenAI's have."""
    body = response.json()
    assert list(body) == ["error"]
    assert list(body["error"]) == ["message", "type", "param", "code"]
    assert body["error"]["message"]
    assert len(response.headers["x-request-id"]) == 32
    return response.status_code, body["error"]["code"], body["error"]["param"]


async def test_no_path_answers_without_an_admin_key(
    admin: Admin, user: dict[str, str], store: KeyStore
) -> None:
    for method, path in PATHS:
        for headers, expected in [
            ({"authorization": ""}, (401, "invalid_api_key", None)),
            ({"authorization": "Bearer dk-0123456789abcdef-guessed"}, (401, "invalid_api_key", None)),
            (
                {"authorization": user["authorization"].removeprefix("Bearer ")},
                (401, "invalid_api_key", None),
            ),
            (user, (403, "permission_denied", None)),
        ]:
            response = await admin.http.request(method, path, headers=headers, json={"tenant": "new"})
            assert error_of(response) == expected, (method, path)
    assert (await store.read()).tenants.keys() == {"operators", "acme"}


async def test_an_admin_key_opens_this_api_only(admin: Admin, secret: str) -> None:
    headers = {"authorization": f"Bearer {secret}"}
    assert (await admin.http.get("/admin/pools")).status_code == 200
    refused = await admin.public.get("/v1/models", headers=headers)
    assert error_of(refused) == (403, "permission_denied", None)
    assert (await admin.public.get("/admin/pools", headers=headers)).status_code in (403, 404)


async def test_a_revoked_admin_key_is_refused(admin: Admin, store: KeyStore, secret: str) -> None:
    await store.revoke([secret[:19]])

    async def refused() -> bool:
        return (await admin.http.get("/admin/pools")).status_code == 401

    await until(refused)


async def test_what_it_cannot_do_is_refused_in_shape(admin: Admin, store: KeyStore) -> None:
    before = await store.read()
    for method, path, body, expected in REFUSED:
        headers = {"content-type": "application/json"} if body else {}
        response = await admin.http.request(method, path, content=body, headers=headers)
        assert error_of(response) == expected, (method, path, body[:100])
    assert await store.read() == before


async def test_the_methods_of_a_path_are_named(admin: Admin) -> None:
    for path, methods in [
        ("/admin/keys", "GET, POST"),
        ("/admin/tenants/acme", "DELETE, GET, PUT"),
        ("/openapi.json", "GET"),
    ]:
        assert (await admin.http.patch(path)).headers["allow"] == methods


async def test_a_body_that_is_no_json_by_its_type(admin: Admin) -> None:
    response = await admin.http.post("/admin/keys", data={"tenant": "operators"})
    assert error_of(response) == (400, "invalid_value", None)
    assert "application/json" in response.json()["error"]["message"]


async def test_a_body_that_is_too_large(admin: Admin) -> None:
    async def parts() -> Any:
        for _ in range(MAX_BODY_BYTES // 1000 + 2):
            yield b" " * 1000

    for content in (b" " * (MAX_BODY_BYTES + 1), parts()):
        response = await admin.http.put("/admin/tenants/acme", content=content)
        assert error_of(response) == (413, "body_too_large", None)


async def test_a_body_that_does_not_come(admin: Admin, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_BODY_S", 0.1)
    url = admin.http.base_url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(b"PUT /admin/tenants/acme HTTP/1.1\r\nHost: admin\r\nContent-Length: 2\r\n")
    writer.write(f"Authorization: Bearer {secret}\r\n\r\n".encode())
    assert await reader.readline() == b"HTTP/1.1 504 Gateway Timeout\r\n"
    await reader.readuntil(b'"code":"deadline_exceeded"')
    writer.close()


async def test_a_failure_that_nobody_foresaw_has_an_id_too(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(gateway: Gateway) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(pools, "queues_of", fail)
    with capture_logs() as logs:
        answer = await admin.http.get("/admin/pools")
    assert error_of(answer) == (500, "internal_error", None)
    (line,) = [line for line in logs if line["event"] == "unexpected error"]
    assert line["request"] == answer.headers["x-request-id"]


async def test_each_act_is_logged_with_who_did_it(admin: Admin, store: KeyStore, secret: str) -> None:
    key_id = secret[:19]
    with capture_logs() as lines:
        await admin.http.get("/admin/keys")
        await admin.http.put("/admin/tenants/new", json={"weight": 2, "limits": {"concurrency": 3}})
        created = (await admin.http.post("/admin/keys", json={"tenant": "new"})).json()
        await admin.http.delete(f"/admin/keys/{created['id']}")
        await admin.http.delete("/admin/tenants/new")
        await admin.http.post("/admin/pools/a%0Ab/pause")
        await admin.http.post("/admin/pools/tiny/pause", headers={"authorization": "Bearer no"})
    acts = [line for line in lines if line["event"] == "admin"]
    assert [(line["act"], line["status"]) for line in acts] == [
        ("PUT /admin/tenants/new", 200),
        ("POST /admin/keys", 200),
        (f"DELETE /admin/keys/{created['id']}", 200),
        ("DELETE /admin/tenants/new", 200),
        ("POST /admin/pools/a%0Ab/pause", 404),
    ]
    assert {(line["key"], line["client"], line["log_level"]) for line in acts} == {
        (key_id, "127.0.0.1", "info")
    }
    assert len({line["request"] for line in acts}) == len(acts)
    assert acts[0]["to"] == {"weight": 2, "limits": {"concurrency": 3}}
    assert (acts[1]["created"], acts[1]["tenant"], acts[1]["admin"]) == (created["id"], "new", False)
    assert acts[3]["revoked"] == []
    assert created["secret"] not in json.dumps(lines, default=repr)
    assert secret not in json.dumps(lines, default=repr)


async def test_keys_in_a_file_are_shown_and_not_changed(settings: Settings, tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.yaml")
    secret, key = await file.create("operators", admin=True)
    access = AccessSettings(keys=str(file.path))
    async with administered(settings.model_copy(update={"access": access}), secret) as admin:
        [shown] = (await admin.http.get("/admin/keys")).json()["data"]
        assert (shown["id"], shown["admin"], shown["state"]) == (key.id, True, "open")
        assert [tenant["id"] for tenant in (await admin.http.get("/admin/tenants")).json()["data"]] == [
            "operators"
        ]
        for method, path, body in [
            ("POST", "/admin/keys", {"tenant": "operators"}),
            ("DELETE", f"/admin/keys/{key.id}", None),
            ("PUT", "/admin/tenants/acme", {}),
            ("DELETE", "/admin/tenants/operators", None),
        ]:
            response = await admin.http.request(method, path, json=body)
            assert error_of(response) == (405, "method_not_allowed", None)
        assert (await file.read()).keys.keys() == {key.id}


async def test_the_document_is_true(admin: Admin) -> None:
    document = (await admin.http.get("/openapi.json")).json()
    described = {
        f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods
    }
    assert described == {
        "GET /admin/pools",
        "GET /admin/pools/{pool}",
        "POST /admin/pools/{pool}/pause",
        "POST /admin/pools/{pool}/resume",
        "POST /admin/pools/{pool}/drain",
        "GET /admin/workers",
        "POST /admin/workers/{worker}/pause",
        "POST /admin/workers/{worker}/resume",
        "POST /admin/workers/{worker}/drain",
        "GET /admin/modes",
        "GET /admin/tenants",
        "GET /admin/tenants/{name}",
        "PUT /admin/tenants/{name}",
        "DELETE /admin/tenants/{name}",
        "GET /admin/keys",
        "POST /admin/keys",
        "DELETE /admin/keys/{key}",
    }
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["security"] == [{"admin key": []}]
            assert list(operation["responses"]) == ["200", "4XX", "5XX"]
    asked = document["components"]["schemas"]["TenantAsked"]
    assert asked["additionalProperties"] is False
    assert set(asked["properties"]) == {"weight", "tiers", "models", "limits"}
    assert document["components"]["securitySchemes"]["admin key"]["scheme"] == "bearer"
