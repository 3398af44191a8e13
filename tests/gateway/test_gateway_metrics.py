"""What /metrics counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

from prometheus_client.parser import text_string_to_metric_families

from dllm_stack.messages import Place
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served, until

CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}


async def test_names_and_help(served: Served, answering: FakeWorker) -> None:
    await served.http.post("/v1/chat/completions", json=CHAT)
    families = list(text_string_to_metric_families((await served.http.get("/metrics")).text))
    own = [family for family in families if not family.name.startswith("process_")]
    assert {family.name for family in own} == {
        "dllm_requests",
        "dllm_open_requests",
        "dllm_allocated_blocks",
        "dllm_request_seconds",
        "dllm_time_to_first_token_seconds",
        "dllm_inter_token_latency_seconds",
        "dllm_time_per_output_token_seconds",
        "dllm_inter_chunk_seconds",
        "dllm_chunk_tokens",
        "dllm_access_refused",
        "dllm_access_keys",
        "dllm_access_keys_lost",
        "dllm_access_age_seconds",
        "dllm_access_file_broken",
        "dllm_tenant_requests",
        "dllm_tenant_tokens",
    }
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
        name.removeprefix("dllm_"): value
        for name, labels, value in await served.samples()
        if labels == {"model": "tiny"}
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
    values = {name: value for name, labels, value in await served.samples() if labels == {"model": "tiny"}}
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
