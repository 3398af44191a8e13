"""What tests of a gateway that asks for keys share."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from dllm_stack.keys import KeyRing, KeyStore
from tests.gateway.served import Served

CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"model": "tiny", "prompt": "Hi"},
    "/generate": {"text": "Hi"},
}
every_endpoint = pytest.mark.parametrize("path", BODIES)


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
        if name == "dllm_access_refused_total" and value
    }


def assert_unauthorized(response: httpx.Response) -> str:
    assert response.status_code == 401, response.text
    assert response.headers["www-authenticate"] == 'Bearer realm="dllm-stack"'
    assert response.headers["x-request-id"]
    error = response.json()["error"]
    message: str = error.pop("message")
    assert error == {"type": "authentication_error", "param": None, "code": "invalid_api_key"}
    return message
