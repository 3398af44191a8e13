"""`x-request-id` is on every answer, and it is the gateway's own."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served

CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}


def id_of(response: httpx.Response) -> str:
    (value,) = response.headers.get_list("x-request-id")
    assert re.fullmatch("[0-9a-f]{32}", value)
    return value


async def test_every_answer_has_one_of_its_own(served: Served, answering: FakeWorker) -> None:
    app = served.server.config.app
    assert isinstance(app, FastAPI)
    paths = {path.replace("{name:path}", "tiny") for path in app.openapi()["paths"]}
    answers = [
        await served.http.request(method, path)
        for path in (*paths, "/openapi.json", "/nowhere", "/v1/models/nowhere")
        for method in ("GET", "POST", "HEAD", "OPTIONS")
    ]
    answers += [
        await served.http.post("/v1/chat/completions", json=CHAT),
        await served.http.post("/v1/chat/completions", json=CHAT | {"stream": True}),
        await served.http.post("/v1/chat/completions", json=CHAT | {"model": "nowhere"}),
        await served.http.post("/generate", content=b"x" * 200_000),
    ]
    assert {answer.status_code for answer in answers} >= {200, 400, 404, 405, 413}
    assert len({id_of(answer) for answer in answers}) == len(answers)


async def test_it_is_the_id_of_the_job(served: Served, worker: FakeWorker) -> None:
    asking = asyncio.create_task(served.http.post("/generate", json={"text": "Hi"}))
    run = await worker.claimed()
    await run.commit("text")
    await run.finish()
    assert id_of(await asking) == run.job.id


@pytest.mark.parametrize("name", ["x-request-id", "x-client-request-id"])
async def test_a_client_s_own_is_only_logged(served: Served, worker: FakeWorker, name: str) -> None:
    own = {name: "mine-1"}
    with capture_logs(processors=[merge_contextvars]) as logs:
        asking = asyncio.create_task(served.http.post("/generate", json={"text": "Hi"}, headers=own))
        run = await worker.claimed()
        await run.give_back()
        await (await worker.claimed()).give_back()
        await (await worker.claimed()).give_back()
        answer = await asking
    assert answer.status_code == 502
    assert id_of(answer) == run.job.id != "mine-1"
    (line,) = [line for line in logs if line["event"] == "request failed"]
    assert (line["request"], line["client_request"]) == (run.job.id, "mine-1")


async def test_an_id_that_is_unfit_for_a_log_is_not(served: Served, worker: FakeWorker) -> None:
    with capture_logs() as logs:
        headers = {"x-request-id": "x" * 129}
        asking = asyncio.create_task(served.http.post("/generate", json={"text": "Hi"}, headers=headers))
        for _ in range(3):
            await (await worker.claimed()).give_back()
        await asking
    (line,) = [line for line in logs if line["event"] == "request failed"]
    assert line["client_request"] is None


async def test_the_failure_that_nobody_foresaw_has_one(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(served.gateway.catalogue, "all", fail)
    with capture_logs() as logs:
        answer = await served.http.get("/v1/models")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert id_of(answer) in [line.get("request") for line in logs]


async def test_what_is_no_http_has_one(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(b"no HTTP\r\n\r\n")
    assert re.search(rb"\r\nx-request-id: [0-9a-f]{32}\r\n", await asyncio.wait_for(reader.read(), 120))
    writer.close()
