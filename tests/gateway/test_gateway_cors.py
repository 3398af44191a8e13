"""Pages of other origins: refused by browsers unless settings name them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pydantic import ValidationError

from dllm_stack.limits import EXPOSED_HEADERS
from dllm_stack.settings import AccessSettings, GatewaySettings, Settings
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, serving

APP = "https://app.example"
PREFLIGHT = {
    "Origin": APP,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
}


@pytest.fixture
async def named(settings: Settings) -> AsyncIterator[Served]:
    """A gateway that wants keys, and is open to pages of APP."""
    changes = {"gateway": GatewaySettings(cors_origins=[APP]), "access": AccessSettings(keys="redis")}
    async with serving(settings.model_copy(update=changes)) as served:
        yield served


def told(headers: object) -> set[str]:
    return {name for name in dict(headers) if name.startswith("access-control")}  # type: ignore[call-overload]


async def test_nothing_is_allowed_by_default(served: Served, answering: FakeWorker) -> None:
    preflight = await served.http.options("/v1/chat/completions", headers=PREFLIGHT)
    assert preflight.status_code == 405
    answer = await served.http.post("/generate", json={"text": "Hi"}, headers={"Origin": APP})
    assert answer.status_code == 200
    assert told(preflight.headers) == told(answer.headers) == set()


async def test_a_preflight_needs_no_key(named: Served) -> None:
    answer = await named.http.options("/v1/chat/completions", headers=PREFLIGHT)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == APP
    assert answer.headers["access-control-allow-headers"] == PREFLIGHT["Access-Control-Request-Headers"]
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in answer.headers
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize(
    "changed", [{"Origin": "https://evil.example"}, {"Access-Control-Request-Method": "DELETE"}]
)
async def test_a_preflight_of_others_is_an_error_in_shape(named: Served, changed: dict[str, str]) -> None:
    answer = await named.http.options("/v1/chat/completions", headers=PREFLIGHT | changed)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_value"
    if "Origin" in changed:
        assert "access-control-allow-origin" not in answer.headers


async def test_a_page_may_read_errors_and_what_limits_say(named: Served) -> None:
    answer = await named.http.get("/v1/models", headers={"Origin": APP})
    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == APP
    exposed = answer.headers["access-control-expose-headers"]
    assert set(exposed.split(", ")) == {"x-request-id", "traceresponse", *EXPOSED_HEADERS}


async def test_a_page_of_others_may_not(named: Served) -> None:
    answer = await named.http.get("/v1/models", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origin", ["app.example", "https://app.example/", "https://*.example", "null", ""])
def test_what_is_no_origin_is_a_wrong_setting(origin: str) -> None:
    with pytest.raises(ValidationError, match="cors_origins"):
        GatewaySettings(cors_origins=[origin])
    GatewaySettings(cors_origins=["*", "http://[::1]:3000", "https://app.example:8443"])
