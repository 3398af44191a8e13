"""What the tests of the whole stack wait for, and read from its parts."""

from __future__ import annotations

import aiohttp
import psutil
from prometheus_client.parser import text_string_to_metric_families

from dllm_stack.redis import Connections
from loadtest.local_stack import LocalStack

DIFFUSION, AUTOREGRESSIVE = "dllm-demo", "tiny-qwen3"  # the models of the stack under test
QUEUE_BOUND = 100  # jobs that may wait in the stack under test


def runs(process: psutil.Process) -> bool:
    """A process that init has only not yet reaped does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def jobs(redis: Connections) -> list[bytes]:
    """The keys of every job that waits or runs."""
    return [key async for key in redis.commands.scan_iter("dllm:*:job:*")]


async def no_jobs(redis: Connections) -> bool:
    return not await jobs(redis)


async def running(redis: Connections) -> int:
    """Leases held, over all workers."""
    keys = [key async for key in redis.commands.scan_iter("dllm:*:running:*")]
    return sum([await redis.commands.hlen(key) for key in keys])


async def samples(http: aiohttp.ClientSession, url: str, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one metric at `url`/metrics, by their label values."""
    async with http.get(f"{url}/metrics") as response:
        families = text_string_to_metric_families(await response.text())
    return {
        tuple(sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
        if sample.name == name
    }


async def ended(http: aiohttp.ClientSession, stack: LocalStack) -> float:
    """How many requests the gateway has counted with an outcome."""
    return sum((await samples(http, stack.gateway_url, "dllm_requests_total")).values())


async def engine_tokens(http: aiohttp.ClientSession, stack: LocalStack) -> int:
    """Tokens the engines hold for requests they run now, from the engines themselves."""
    used = 0
    for url in stack.engine_urls:
        async with http.get(f"{url}/v1/loads") as response:
            used += int((await response.json())["loads"][0]["num_used_tokens"])
    return used
