"""What a worker's /metrics says of its engine, besides what the worker has measured itself."""

from __future__ import annotations

from collections import Counter

import aiohttp
from openai import AsyncOpenAI
from prometheus_client.parser import text_string_to_metric_families

from loadtest.local_stack import LocalStack


async def test_an_engine_says_everything_once(
    stack: LocalStack, http: aiohttp.ClientSession, client: AsyncOpenAI, model: str
) -> None:
    await client.completions.create(model=model, prompt="1, 2, 3", max_tokens=40)
    async with http.get(f"{stack.worker_url}/metrics") as response:
        families = list(text_string_to_metric_families(await response.text()))
    samples = [sample for family in families for sample in family.samples]
    series = Counter((sample.name, *sorted(sample.labels.items())) for sample in samples)
    assert max(series.values()) == 1
    assert max(Counter(family.name for family in families).values()) == 1
    names = {sample.name for sample in samples}
    assert {"sglang:generation_tokens_total", "dllm_engine_committed_tokens_total"} <= names
    # Whatever the number of its processes, none of them has a series of its own.
    [running] = [sample for sample in samples if sample.name == "sglang:num_running_reqs"]
    assert running.labels["model_name"] == model
    assert not any("pid" in sample.labels for sample in samples)
