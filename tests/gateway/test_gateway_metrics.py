"""What /metrics counts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from typing import Any, cast

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from dllm_stack.exposition import expose_text
from dllm_stack.messages import Place, Took
from dllm_stack.outcomes import ErrorCode, Outcome, Problem
from gateway.metrics import PARTS, Metrics
from tests.docs.pages import rows_of
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, until

KIND = {"model": "tiny", "mode": "default", "tier": "default"}
CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}


async def test_names_and_help(served: Served, answering: FakeWorker) -> None:
    await served.http.post("/v1/chat/completions", json=CHAT)
    families = list(text_string_to_metric_families((await served.http.get("/metrics")).text))
    own = [family for family in families if not family.name.startswith("process_")]
    assert all(family.documentation for family in own)
    bounds = {
        family.name: [s.labels["le"] for s in family.samples if s.name.endswith("_bucket")] for family in own
    }
    for name, first, last in (
        ("dllm_time_to_first_token_seconds", "0.001", "600.0"),
        ("dllm_inter_token_latency_seconds", "0.0001", "1.0"),
    ):
        assert (bounds[name][0], bounds[name][-2]) == (first, last)


async def test_tokens_and_times_of_streams_and_documents(served: Served, worker: FakeWorker) -> None:
    for stream in (False, True):
        body = {**CHAT, "stream": stream}
        request = asyncio.create_task(served.http.post("/v1/chat/completions", json=body))
        run = await worker.claimed()
        await run.commit("a", tokens=32)
        await run.commit("", tokens=0)
        await run.commit("b", tokens=8)
        await run.finish()
        assert (await request).status_code == 200
    values = {
        name.removeprefix("dllm_"): value for name, labels, value in await served.samples() if labels == KIND
    }
    assert values["time_to_first_token_seconds_count"] == 2
    assert values["inter_chunk_seconds_count"] == 2
    assert values["inter_token_latency_seconds_count"] == 2 * 8
    assert values["time_per_output_token_seconds_count"] == 2
    assert values["chunk_tokens_count"] == 4
    assert values["chunk_tokens_sum"] == 80
    # Every gap between two chunks is spread over the tokens of the second.
    gaps, tokens = values["inter_chunk_seconds_sum"], values["inter_token_latency_seconds_sum"]
    assert abs(gaps - tokens) < 1e-9


async def test_each_token_is_counted_once_whatever_comes_again(served: Served, worker: FakeWorker) -> None:
    request = asyncio.create_task(served.http.post("/v1/chat/completions", json=CHAT))
    first = await worker.claimed()
    await first.commit("one ", tokens=32)
    await first.give_back()
    second = await worker.claimed()
    key = f"dllm:{{tiny}}:job:{first.job.id}"  # as if Redis had been set back by 4 tokens
    set_back = served.gateway.connections.commands.hset(key, mapping={"tokens": 28, "characters": 2})
    await cast(Awaitable[int], set_back)
    await second.send(Place(28, 2), "e two", list(range(28, 37)))
    second.place = Place(37, 7)
    await second.finish()
    assert (await request).json()["choices"][0]["message"]["content"] == "one two"
    values = {name: value for name, labels, value in await served.samples() if labels == KIND}
    assert values["dllm_chunk_tokens_sum"] == 37


async def test_each_request_is_counted_once_and_clients_add_no_models(
    served: Served, answering: FakeWorker
) -> None:
    await until(served.gateway.catalogue.all)
    for i in range(5):
        await served.http.post("/v1/chat/completions", json={**CHAT, "model": f"invented-{i}"})
    await served.http.post("/v1/chat/completions", json={**CHAT, "temperature": 1})
    await served.http.post("/v1/chat/completions", json=CHAT)
    await served.http.post("/v1/completions", content=b"{")
    await served.http.post("/generate", json={"text": ["a", "b", "c"]})
    assert await served.outcomes() == {
        ("chat", "other", "rejected", "model_not_found"): 5,
        ("chat", "tiny", "rejected", "unsupported_parameter"): 1,
        ("chat", "tiny", "completed", ""): 1,
        ("completions", "other", "rejected", "invalid_json"): 1,
        ("generate", "tiny", "completed", ""): 1,
    }
    seconds = [s for s in await served.samples() if s[0] == "dllm_request_seconds_count"]
    assert sum(value for _, _, value in seconds) == 9


async def test_open_requests(served: Served, worker: FakeWorker) -> None:
    async def open_requests() -> float:
        name, labels = "dllm_open_requests", {"endpoint": "chat"}
        return next(s[2] for s in await served.samples() if s[:2] == (name, labels))

    request = asyncio.create_task(served.http.post("/v1/chat/completions", json=CHAT))
    run = await worker.claimed()
    assert await open_requests() == 1
    await run.finish()
    await request
    assert await open_requests() == 0


async def test_the_parts_of_a_time_to_first_token(served: Served, worker: FakeWorker) -> None:
    request = asyncio.create_task(served.http.post("/v1/chat/completions", json={**CHAT, "stream": True}))
    run = await worker.claimed()
    await asyncio.sleep(0.05)
    await run.commit("one ", tokens=32, took=Took(0.01, 0.03))
    await run.commit("two ", tokens=32)
    await run.finish()
    await request
    seconds = {
        labels["part"]: value
        for name, labels, value in await served.samples()
        if name == "dllm_time_to_first_token_part_seconds_sum"
    }
    [ttft] = [v for n, labels, v in await served.samples() if n == "dllm_time_to_first_token_seconds_sum"]
    assert [*seconds] == list(PARTS)
    assert abs(sum(seconds.values()) - ttft) < 1e-5  # Redis counts microseconds
    assert (seconds["prompt"], seconds["engine"]) == (0.01, 0.03)
    # What the worker's own clock does not account for, of the time that Redis' says it ran.
    assert seconds["dispatch"] >= 0.05 - 0.04


async def test_a_sampled_trace_is_named_where_the_scraper_can_read_it(
    served: Served, answering: FakeWorker
) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    for trace, flags in ((trace_id, "01"), ("a" * 32, "00")):
        headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-{flags}"}
        await served.http.post("/v1/chat/completions", json=CHAT, headers=headers)
    wants = {"Accept": "application/openmetrics-text; version=1.0.0"}
    response = await served.http.get("/metrics", headers=wants)
    assert response.headers["content-type"].startswith("application/openmetrics-text")
    named = {
        sample.name: sample.exemplar.labels["trace_id"]
        for family in openmetrics(response.text)  # type: ignore[no-untyped-call]
        for sample in family.samples
        if sample.exemplar
    }
    assert {*named.values()} == {trace_id}
    assert {*named} == {
        "dllm_request_seconds_bucket",
        "dllm_time_to_first_token_seconds_bucket",
        "dllm_inter_chunk_seconds_bucket",
    }
    assert trace_id not in (await served.http.get("/metrics")).text


async def test_what_ends_a_request_was_shown_as_0_before(served: Served, worker: FakeWorker) -> None:
    """Of a series that begins with 1 Prometheus sees no increase."""

    async def ends(**labels: str) -> dict[tuple[str, str], float]:
        return {
            (of["outcome"], of["code"]): value
            for name, of, value in await served.samples()
            if name == "dllm_requests_total" and labels.items() <= of.items()
        }

    unknown = await ends(endpoint="chat", model="other")
    assert unknown["rejected", "queue_unavailable"] == 0
    assert unknown["rejected", "gateway_full"] == 0
    await until(served.gateway.catalogue.all)
    for tier in ("default", "flex"):
        asked = served.http.post("/v1/chat/completions", json=CHAT | {"service_tier": tier})
        request = asyncio.create_task(asked)
        run = await worker.claimed()
        before = await ends(endpoint="chat", **KIND | {"tier": tier})
        await run.fail(Problem(ErrorCode.WORKER_LOST, "It is gone."))
        assert (await request).status_code == 502
        assert not any(before.values())
        after = await ends(endpoint="chat", **KIND | {"tier": tier})
        assert after == before | {("failed", "worker_lost"): 1}


def test_nor_does_a_tenant_or_a_refusal_begin_with_1() -> None:
    metrics = Metrics()
    metrics.expect_tenant("acme")
    shown = text_string_to_metric_families(expose_text(metrics.registry).decode())
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in shown
        for sample in family.samples
    }
    for outcome in Outcome:
        assert samples["dllm_tenant_requests_total", *sorted(("acme", outcome))] == 0
    assert samples["dllm_tenant_tokens_total", "acme"] == 0
    (row,) = [row for row in rows_of("metrics.md", "label", "values") if row[0] == "`reason`"]
    refusals = {key[1] for key in samples if key[0] == "dllm_access_refused_total"}
    assert refusals - {"off"} == set(re.findall(r"`(\w+)`", row[1]))
