"""What is measured: an engine, and before it the stack, open and with keys and limits."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from dllm_stack.keys import KeyStore
from dllm_stack.local.service import free_port
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings
from dllm_stack.tenants import Limits, Tenant
from loadtest.fleet import POOL, Fleet, Member, ready
from loadtest.local_stack import LocalStack
from loadtest.overhead.timing import Side

OPEN, GUARDED, ENGINE = "stack", "with keys", "engine"

# Limits that are counted, and never reached.
_LIMITS = Limits(requests_per_minute=10**6, tokens_per_minute=10**9, concurrency=1000)
_PACE = ["--block-ms", "20", "--prefill-ms", "0"]


@dataclass(frozen=True)
class Stand:
    """
    Attributes:
        notes: what else there is to say of it.
    """

    sides: list[Side]
    redis_url: str
    notes: list[str]


@asynccontextmanager
async def cpu_engine() -> AsyncIterator[Stand]:
    """`dllm-stack up`, and SGLang on a CPU."""
    with LocalStack() as stack:
        model = await _model(stack.gateway_url)
        async with _guarded(stack.redis_url, model) as guarded:
            sides = [Side(OPEN, stack.gateway_url, model), guarded, Side(ENGINE, stack.engine_url, model)]
            notes = [f"From the start to the first answer: {stack.start_s:.1f} s", "", "resident memory"]
            notes += [
                f"{name:<40}  {process.memory_info().rss / 2**20:7.0f} MiB"
                for name, process in stack.processes().items()
            ]
            yield Stand(sides, stack.redis_url, notes)


@asynccontextmanager
async def simulator() -> AsyncIterator[Stand]:
    """One process of each kind, and a simulator that commits a block every 20 ms."""
    async with Fleet(pace=_PACE) as fleet, _guarded(fleet.redis_url, POOL) as guarded:
        (gateway,), (engine,) = fleet.gateways, fleet.simulators
        yield Stand([Side(OPEN, gateway, POOL), guarded, Side(ENGINE, engine, POOL)], fleet.redis_url, [])


@asynccontextmanager
async def _guarded(redis_url: str, model: str) -> AsyncIterator[Side]:
    """One more gateway of the same stack, which wants keys and counts limits."""
    connections = Connections(RedisSettings(url=redis_url))
    store = KeyStore(connections)
    await store.set_tenant(Tenant(name="bench", limits=_LIMITS))
    key = (await store.create("bench")).secret
    await connections.aclose()
    url = f"http://127.0.0.1:{(port := free_port())}"
    folder = Path(tempfile.mkdtemp(prefix="overhead-"))
    env = {
        "DLLM_REDIS__URL": redis_url,
        "DLLM_GATEWAY__PORT": str(port),
        "DLLM_ACCESS__KEYS": "redis",
        "DLLM_ADMIN__PORT": str(free_port()),
        "DLLM_LIMITS__BLIND_S": "0",  # a Redis as new as this one may have lost nothing
    }
    argv = [sys.executable, "-m", "dllm_stack.cli", "gateway"]
    gateway = Member("gateway with keys", argv, folder, probe=f"{url}/readyz", env=env)
    await gateway.start()
    try:
        await ready(gateway)
        yield Side(GUARDED, url, model, key)
    finally:
        await gateway.stop(asyncio.Event())
        shutil.rmtree(folder)


async def _model(gateway_url: str) -> str:
    async with aiohttp.ClientSession() as http, http.get(f"{gateway_url}/v1/models") as response:
        name: str = (await response.json())["data"][0]["id"]
    return name
