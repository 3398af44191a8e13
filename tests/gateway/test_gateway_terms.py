"""Tier, tenant, deadline and session: what a request says of them, and the job it becomes."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx
import pytest

from dllm_stack.messages import Tier
from tests.gateway.fake_worker import FakeWorker, Run
from tests.gateway.served import Served, begun_in_time, until

BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/completions": {"model": "tiny", "prompt": "Hi"},
    "/generate": {"text": "Hi"},
}
every_endpoint = pytest.mark.parametrize("path", BODIES)


async def asked(
    served: Served, worker: FakeWorker, path: str, headers: dict[str, str], **fields: Any
) -> tuple[Run, dict[str, Any]]:
    """The run of a request, and its answer."""
    request = asyncio.create_task(served.http.post(path, json={**BODIES[path], **fields}, headers=headers))
    run = await worker.claimed()
    await run.commit("Hello")
    await run.finish()
    answer: dict[str, Any] = (await request).json()
    return run, answer


@every_endpoint
async def test_a_request_that_says_nothing(served: Served, worker: FakeWorker, path: str) -> None:
    run, answer = await asked(served, worker, path, {})
    assert (run.job.tenant, run.job.tier, run.job.session) == ("default", Tier.DEFAULT, None)
    assert run.job.timeout_s is not None
    assert 500 < run.job.timeout_s <= 600
    assert "service_tier" not in answer


@every_endpoint
async def test_a_request_that_says_everything(served: Served, worker: FakeWorker, path: str) -> None:
    run, _ = await asked(
        served,
        worker,
        path,
        {"X-Tenant-ID": "acme.eu-1_b"},
        service_tier="flex",
        timeout=200,
        prompt_cache_key="k",
    )
    assert (run.job.tenant, run.job.tier, run.job.session) == ("acme.eu-1_b", Tier.FLEX, "k")
    assert run.job.timeout_s is not None
    assert 100 < run.job.timeout_s <= 200


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize(
    ("given", "told"),
    [("auto", "default"), ("default", "default"), ("flex", "flex"), ("priority", "priority")],
)
async def test_the_tier_is_told_as_openai_does(
    served: Served, worker: FakeWorker, path: str, given: str, told: str
) -> None:
    run, answer = await asked(served, worker, path, {}, service_tier=given)
    assert run.job.tier == answer["service_tier"] == told


async def test_each_chunk_tells_the_tier(served: Served, answering: FakeWorker) -> None:
    chat = await served.openai.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "Hi"}], service_tier="priority", stream=True
    )
    assert {chunk.service_tier async for chunk in chat} == {"priority"}


async def test_the_headers_come_before_the_body(served: Served, worker: FakeWorker) -> None:
    headers = {"X-Session-ID": "from the header", "X-Request-Timeout": "300.5"}
    run, _ = await asked(served, worker, "/generate", headers, prompt_cache_key="from the body", timeout=599)
    assert run.job.session == "from the header"
    assert run.job.timeout_s is not None
    assert 200 < run.job.timeout_s <= 300.5


async def test_the_shortest_deadline_counts(served: Served, worker: FakeWorker) -> None:
    run, _ = await asked(served, worker, "/generate", {"X-Request-Timeout": "3600"}, timeout=7200.0)
    assert run.job.timeout_s is not None
    assert 500 < run.job.timeout_s <= 600


@pytest.mark.parametrize(("headers", "fields"), [({"X-Request-Timeout": "0.3"}, {}), ({}, {"timeout": 0.3})])
async def test_a_deadline_of_ones_own(
    served: Served, worker: FakeWorker, headers: dict[str, str], fields: dict[str, Any]
) -> None:
    await worker.set_slots(0)
    body = {**BODIES["/v1/completions"], **fields}
    response = await served.http.post("/v1/completions", json=body, headers=headers)
    assert response.status_code == 504
    error = response.json()["error"]
    assert error["code"] == "deadline_exceeded"


async def test_a_deadline_of_ones_own_ends_a_stream_and_its_run(served: Served, worker: FakeWorker) -> None:
    async def ask(timeout_s: float) -> httpx.Response:
        body = {**BODIES["/generate"], "stream": True, "timeout": timeout_s}
        return await served.http.post("/generate", json=body)

    run, request = await begun_in_time(worker, ask, lambda run: run.commit("part"))
    assert '"deadline_exceeded"' in (await request).text
    await asyncio.wait_for(run.cancelled.wait(), 120)


async def test_a_body_that_takes_longer_than_the_deadline(served: Served) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    head = b"POST /generate HTTP/1.1\r\nhost: x\r\nx-request-timeout: 0.2\r\ncontent-length: 10\r\n\r\n{"
    writer.write(head)
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)
    assert answer.startswith(b"HTTP/1.1 504 ")
    writer.close()


@every_endpoint
async def test_time_that_was_up_before_the_queue(served: Served, worker: FakeWorker, path: str) -> None:
    await worker.set_slots(0)
    body = {**BODIES[path], "timeout": 1e-9}
    assert (await served.http.post(path, json=body)).status_code == 504
    await until(lambda: _none_waits(worker))


async def _none_waits(worker: FakeWorker) -> bool:
    return (await worker.queue.depth()).waiting == 0


@every_endpoint
@pytest.mark.parametrize(
    ("headers", "fields", "param"),
    [
        ({}, {"service_tier": "scale"}, "service_tier"),
        ({}, {"service_tier": 1}, "service_tier"),
        ({}, {"timeout": 0}, "timeout"),
        ({}, {"timeout": -1}, "timeout"),
        ({}, {"timeout": "5"}, "timeout"),
        ({}, {"timeout": True}, "timeout"),
        ({}, {"prompt_cache_key": ""}, "prompt_cache_key"),
        ({}, {"prompt_cache_key": "k" * 257}, "prompt_cache_key"),
        ({"X-Request-Timeout": "0"}, {}, "X-Request-Timeout"),
        ({"X-Request-Timeout": "0.0"}, {}, "X-Request-Timeout"),
        ({"X-Request-Timeout": "-1"}, {}, "X-Request-Timeout"),
        ({"X-Request-Timeout": "inf"}, {}, "X-Request-Timeout"),
        ({"X-Request-Timeout": "1e3"}, {}, "X-Request-Timeout"),
        ({"X-Request-Timeout": ""}, {}, "X-Request-Timeout"),
        ({"X-Tenant-ID": ""}, {}, "X-Tenant-ID"),
        ({"X-Tenant-ID": "a b"}, {}, "X-Tenant-ID"),
        ({"X-Tenant-ID": "a:b"}, {}, "X-Tenant-ID"),
        ({"X-Tenant-ID": "a" * 65}, {}, "X-Tenant-ID"),
        ({"X-Session-ID": "s" * 257}, {}, "X-Session-ID"),
        ({"X-Session-ID": "ü"}, {}, "X-Session-ID"),
    ],
)
async def test_what_cannot_be_is_refused_by_name(
    served: Served,
    answering: FakeWorker,
    path: str,
    headers: dict[str, str],
    fields: dict[str, Any],
    param: str,
) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    response = await served.http.post(path, json={**BODIES[path], **fields}, headers=raw)
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("invalid_value", param)
    assert param in error["message"]


@every_endpoint
@pytest.mark.parametrize(
    ("name", "values"),
    [("X-Tenant-ID", "ab"), ("X-Tenant-ID", "aa"), ("X-Session-ID", "ab"), ("X-Request-Timeout", "59")],
)
async def test_a_header_given_twice_is_refused_by_name(
    served: Served, answering: FakeWorker, path: str, name: str, values: str
) -> None:
    headers = [(name.encode(), value.encode()) for value in values]
    response = await served.http.post(path, json=BODIES[path], headers=headers)
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("invalid_value", name)
    assert error["message"] == f"{name} must be given once."


@every_endpoint
@pytest.mark.parametrize("number", ["1e999", "9" * 400])
async def test_a_timeout_that_is_no_number_any_more(
    served: Served, answering: FakeWorker, path: str, number: str
) -> None:
    body = json.dumps({**BODIES[path], "timeout": 0}).replace('"timeout": 0', f'"timeout": {number}')
    response = await served.http.post(path, content=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "timeout"


@every_endpoint
async def test_sglangs_priority_is_refused_for_the_tier(
    served: Served, answering: FakeWorker, path: str
) -> None:
    response = await served.http.post(path, json={**BODIES[path], "priority": 1})
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "priority is not supported: use service_tier."


async def test_a_running_request_that_gets_no_block_in_time(served: Served, worker: FakeWorker) -> None:
    async def ask(timeout_s: float) -> httpx.Response:
        return await served.http.post("/generate", json={**BODIES["/generate"], "timeout": timeout_s})

    _, request = await begun_in_time(worker, ask)
    response = await request
    assert response.status_code == 504
    message = response.json()["error"]["message"]
    assert re.fullmatch(r"The request did not get a first block within (0\.5|5|50) s\.", message)
