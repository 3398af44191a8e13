"""A rolling upgrade on processes: gateways, routers and workers replaced as the Deployments say, while
clients never stop asking. The engine is a simulator, which all workers share: two cores cannot run several
engines.

DLLM_TEST_ROLLOUT=1: with the chart's own times, one more router and worker, longer streams, and a scale-down.
"""

from __future__ import annotations

import asyncio
import copy
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from loadtest.fleet import POOL
from tests.helm.conftest import Manifest, Render
from tests.helm.fake_kubelet.cluster import FakeCluster
from tests.helm.fake_kubelet.node import missing
from tests.helm.fake_kubelet.pod import Pod
from tests.helm.rehearsal import Clients, simulator
from tests.waiting import eventually

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.timeout(600),
]

WHOLE = "DLLM_TEST_ROLLOUT" in os.environ
STREAMS = 50
WORKERS, SLOTS = (3, 24) if WHOLE else (2, 32)
TOKENS, BLOCK_MS = (range(150, 450), 300) if WHOLE else (range(64, 224), 300)
ROLLED_OUT_S = 240
PASSWORD = {"kind": "Secret", "metadata": {"name": "password"}, "stringData": {"password": "rehearsal"}}
# So that a test need not wait for as long as an operator.
SHORT = {"gateway": {"preStopS": 2}, "config": {"gateway": {"drain_s": 60}, "worker": {"drain_s": 60}}}


class Release:
    """What is rendered, and how it is upgraded: by the tag of its images."""

    def __init__(self, render: Render, engine_url: str) -> None:
        self._render = render
        self._engine_url = engine_url

    def manifests(self, tag: str, workers: int = WORKERS) -> list[Manifest]:
        values: dict[str, Any] = copy.deepcopy({} if WHOLE else SHORT)
        # On two busy cores a process may wait for seconds until it is its turn: Redis is not away then.
        values.setdefault("config", {})["redis"] = {"timeout_s": 20}
        values |= {
            "image": {"tag": tag},
            "models": {POOL: {"checkpoint": "demo:", "dllm": {"algorithm": "LowConfidence"}}},
            "pools": {
                "demo": {
                    "model": POOL,
                    "nodes": workers,
                    "workersPerNode": 1,
                    "engine": {"max_running_requests": SLOTS, "mem_fraction": 0.5},
                }
            },
            "gateway": values.get("gateway", {}) | {"replicas": 2},
            "router": {"replicas": 2 if WHOLE else 1},
            "worker": {"extraEnv": [{"name": "DLLM_WORKER__ENGINE_URL", "value": self._engine_url}]},
            # `helm template` asks no cluster, and would make a new password each time.
            "redis": {"trial": {"passwordSecret": {"name": "password"}}},
        }
        return [PASSWORD, *self._render("cpu-dev", values={"dllm-stack": values}, release="r")]


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster() as cluster:
        yield cluster


@pytest.fixture
async def release(cluster: FakeCluster, render: Render) -> AsyncIterator[Release]:
    """Installed."""
    async with simulator(WORKERS, SLOTS, BLOCK_MS) as port:
        release = Release(render, await cluster.admit(port))
        await cluster.apply(release.manifests("1"))
        await cluster.rolled_out(ROLLED_OUT_S)

        async def both_serve() -> bool:
            return len(cluster.services["r-gateway"].endpoints) == 2

        await eventually(both_serve)
        yield release


async def test_a_rolling_upgrade_loses_no_stream(
    cluster: FakeCluster, release: Release, record: Callable[[str], None]
) -> None:
    url = f"http://{cluster.services['r-gateway'].address}"
    async with AsyncExitStack() as stack:
        kept = await stack.enter_async_context(cluster.http())
        fresh = await stack.enter_async_context(cluster.http(force_close=True))
        clients = Clients(url, [kept, fresh], STREAMS, TOKENS)
        await clients.undisturbed()
        before = [pod for pod in cluster.living if not pod.name.startswith("r-redis")]
        began = time.monotonic()
        async with clients.asking() as ledger:
            await asyncio.sleep(1)
            await cluster.apply(release.manifests("2"))
            await cluster.rolled_out(ROLLED_OUT_S)
            await cluster.gone(120)
            took_s = time.monotonic() - began
            await asyncio.sleep(1)
    tell(before, record)
    record(
        f"{STREAMS} streams at once, over {took_s:.0f} s: {ledger.whole} whole and as undisturbed, failures "
        f"{dict(ledger.failures)}; the longest pause in a stream {ledger.pauses.longest_s:.1f} s"
    )
    assert not ledger.failures
    assert ledger.whole > STREAMS
    for pod in before:
        assert pod.statuses == [0], cluster.describe(pod)
        assert pod.at("gone") - pod.at("deleted") < pod.grace_s
    assert not set(before) & set(cluster.living)

    if WHOLE:
        await a_scale_down_takes_the_idle_worker(cluster, release, url)


def tell(pods: list[Pod], record: Callable[[str], None]) -> None:
    first = min(pod.at("deleted") for pod in pods)
    for pod in sorted(pods, key=lambda pod: pod.at("deleted")):
        hook = (
            f", preStop over after {pod.at('preStop') - pod.at('deleted'):.1f} s"
            if has(pod, "preStop")
            else ""
        )
        took_s = pod.at("gone") - pod.at("deleted")
        record(f"{pod.name}: deleted at {pod.at('deleted') - first:.1f} s{hook}, gone after {took_s:.1f} s")


def has(pod: Pod, what: str) -> bool:
    return any(event.what == what for event in pod.events)


async def a_scale_down_takes_the_idle_worker(cluster: FakeCluster, release: Release, url: str) -> None:
    """The oldest one, which a ReplicaSet would keep; a pause, as an operator orders it, makes it idle."""
    idle, *busy = sorted(cluster.of("r-worker-demo"), key=lambda pod: pod.created_at)
    gateway = cluster.of("r-gateway")[0]
    assert await gateway.container().execute(["dllm-stack", "queue", "pause", idle.name], 60) == 0
    async with cluster.http() as http:
        clients = Clients(url, [http], 4 * len(busy), TOKENS)
        await clients.undisturbed()
        async with clients.asking() as ledger:

            async def costs_are_told() -> bool:
                return cluster.cost(idle) == 0 and all(cluster.cost(pod) > 0 for pod in busy)

            await eventually(costs_are_told)
            await cluster.apply(release.manifests("2", WORKERS - 1))

            async def is_gone() -> bool:
                return has(idle, "gone")

            await eventually(is_gone)
    assert not ledger.failures
    assert cluster.of("r-worker-demo") == busy
