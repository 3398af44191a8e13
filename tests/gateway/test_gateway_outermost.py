"""What stands before FastAPI."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http.outermost import Application


class Failing:
    """Fails at each request, after an answer has begun or before."""

    def __init__(self, app: ASGIApp, begun: bool) -> None:
        self._app = app
        self._begun = begun

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._begun:
            await PlainTextResponse("so far")(scope, receive, send)
        raise ZeroDivisionError


async def asked(begun: bool, *, page: str | None = None, origins: Sequence[str] = ()) -> httpx.Response:
    app = Application(guard=lambda inner: Failing(inner, begun), cors_origins=origins)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
        return await client.post("/v1/chat/completions", headers={"origin": page} if page else None)


async def test_a_failure_has_an_answer_of_the_usual_shape_and_an_id() -> None:
    answer = await asked(begun=False)
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert answer.headers["x-request-id"]


async def test_a_page_that_may_use_the_gateway_may_read_of_its_failure() -> None:
    origin = "https://app.example"
    answer = await asked(begun=False, page=origin, origins=[origin])
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert answer.headers["access-control-allow-origin"] == origin
    assert "x-request-id" in answer.headers["access-control-expose-headers"]
    for page, origins in ((origin, []), ("https://evil.example", [origin])):
        answer = await asked(begun=False, page=page, origins=origins)
        assert answer.status_code == 500
        assert "access-control-allow-origin" not in answer.headers


async def test_an_answer_that_has_begun_is_left_to_the_server_to_break_off() -> None:
    with pytest.raises(ZeroDivisionError):
        await asked(begun=True)
