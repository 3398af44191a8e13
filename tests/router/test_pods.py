"""Workers and their pods, on a real Valkey and against a fake of the Kubernetes API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from dllm_stack.messages import Decoding, End, Job, Place, TextPrompt, WorkerCard
from dllm_stack.outcomes import Outcome
from dllm_stack.queue import START, Dispatched, PoolQueue, Registry
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings, RedisSettings, RouterSettings, Settings
from router import pods
from router.cluster import Cluster
from router.main import CannotStart, Router
from router.pods import PodWatcher, deletion_cost
from tests.queue.kit import WatchedQueue
from tests.router.fake_kube_api import FakeKubeApi, running
from tests.waiting import eventually

POOL = "tiny"


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LOOK_EVERY_S", "_WATCH_AGAIN_S", "_RETRY_S", "_RETRY_CAP_S", "_COST_EVERY_S"):
        monkeypatch.setattr(pods, name, 0.02)


@pytest.fixture
def queue(connections: Connections) -> PoolQueue:
    return WatchedQueue(connections, POOL, QueueSettings(heartbeat_ttl_s=1000))


@pytest.fixture
async def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeKubeApi]:
    async with running() as api:
        monkeypatch.setenv("KUBECONFIG", str(api.write_kubeconfig(tmp_path)))
        yield api


@pytest.fixture
def logged() -> Any:
    with structlog.testing.capture_logs() as logs:
        yield logs


@asynccontextmanager
async def watching(api: FakeKubeApi, queue: PoolQueue) -> AsyncIterator[None]:
    """A watcher, from when it follows the pods."""
    cluster = await Cluster.connect("app=worker", None)
    before = api.watches
    task = asyncio.create_task(PodWatcher(cluster, lambda: [queue]).run())
    try:
        await eventually(lambda: follows(api, before))
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await cluster.aclose()


async def follows(api: FakeKubeApi, others: int = 0) -> bool:
    return api.watches > others


async def start(api: FakeKubeApi, queue: PoolQueue, *names: str) -> None:
    """Pods, and in each a worker of the same name."""
    for name in names:
        await api.add(name, app="worker")
        await beat(queue, name)


async def beat(queue: PoolQueue, worker: str) -> None:
    card = WorkerCard(id=worker, pool=POOL, slots=8, state="ready", pod=worker)
    await queue.worker_heartbeat(card, acked=START, held=[])


async def run_job(queue: PoolQueue, number: int, tokens: int = 100) -> Dispatched:
    id, decoding = f"{number:032x}", Decoding(max_tokens=tokens)
    await queue.admit(Job(id=id, pool=POOL, gateway="g", prompt=TextPrompt(""), decoding=decoding))
    [dispatched] = await queue.dispatch()
    return dispatched


@asynccontextmanager
async def routing(redis: RedisSettings) -> AsyncIterator[None]:
    """A router that watches pods."""
    settings = Settings(redis=redis, router=RouterSettings(port=0, worker_pods="app=worker"))
    stop = asyncio.Event()
    task = asyncio.create_task(Router(settings).run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def asked(api: FakeKubeApi) -> bool:
    return bool(api.requests)


async def is_running(queue: PoolQueue) -> bool:
    return (await queue.depth()).running == 1


async def is_drained(queue: PoolQueue, *workers: str) -> bool:
    return [worker.card.id for worker in await queue.workers() if worker.draining] == list(workers)


async def asked_twice(api: FakeKubeApi) -> bool:
    return api.requests.count("read") > 1


async def costs_are(api: FakeKubeApi, costs: list[tuple[str, str]]) -> bool:
    return api.costs == costs


async def lists_again(api: FakeKubeApi) -> bool:
    return api.requests[:2] == ["list", "watch"]


async def was_said(logged: list[dict[str, Any]], event: str) -> bool:
    return any(line["event"] == event for line in logged)


async def refused_often(api: FakeKubeApi) -> bool:
    return api.requests.count("patch") > 2


async def has_cost(api: FakeKubeApi, pod: str, cost: str) -> bool:
    return (pod, cost) in api.costs


async def test_a_pod_that_is_to_go_gets_no_more_jobs(
    api: FakeKubeApi, queue: PoolQueue, logged: list[dict[str, Any]]
) -> None:
    await start(api, queue, "w0", "w1")
    async with watching(api, queue):
        await api.mark_for_deletion("w0")
        await eventually(lambda: is_drained(queue, "w0"))
        await beat(queue, "w0")  # it offers its slots all the same
        assert {(await run_job(queue, number)).worker for number in range(8)} == {"w1"}
    said = [(line["pod"], line["worker"]) for line in logged if line["event"].startswith("pod is leaving")]
    assert said == [("w0", "w0")]


async def test_a_worker_that_comes_after_the_mark_gets_none_either(
    api: FakeKubeApi, queue: PoolQueue
) -> None:
    await api.add("w0", app="worker")
    async with watching(api, queue):
        await api.mark_for_deletion("w0")
        await beat(queue, "w0")
        await eventually(lambda: is_drained(queue, "w0"))


async def test_a_worker_of_another_version_disturbs_no_other(
    api: FakeKubeApi, queue: PoolQueue, connections: Connections
) -> None:
    await start(api, queue, "w0", "w1")
    await connections.commands.hset(f"dllm:{{{POOL}}}:worker:w1", "card", b"unreadable")
    async with watching(api, queue):
        await api.mark_for_deletion("w0")
        await eventually(lambda: is_drained(queue, "w0"))


async def test_the_next_pod_of_that_name_gets_jobs(api: FakeKubeApi, queue: PoolQueue) -> None:
    await api.add("w0", app="worker")
    async with watching(api, queue):
        await api.mark_for_deletion("w0")
        await start(api, queue, "w1")
        await api.mark_for_deletion("w1")
        await eventually(lambda: is_drained(queue, "w1"))  # so the mark on w0 has been seen too
        api.replace_unseen("w0")
        api.requests.clear()
        await beat(queue, "w0")
        await eventually(lambda: asked_twice(api))
        assert await is_drained(queue, "w1")


async def test_the_deletion_cost_follows_the_load(api: FakeKubeApi, queue: PoolQueue) -> None:
    await start(api, queue, "w0", "w1")
    async with watching(api, queue):
        running = await run_job(queue, 1, tokens=300)
        await eventually(lambda: costs_are(api, [(running.worker, "9")]))
        await queue.finish(running.worker, running.job_id, 1, Place(0, 0), End(outcome=Outcome.COMPLETED))
        await eventually(lambda: costs_are(api, [(running.worker, "9"), (running.worker, "0")]))


def test_the_cost_of_a_load() -> None:
    assert [deletion_cost(load) for load in (0, 1, 2, 255, 256, 511)] == ["0", "1", "2", "8", "9", "9"]


async def test_one_pods_cost_is_not_written_often(
    api: FakeKubeApi, queue: PoolQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "_COST_EVERY_S", 3600)
    await start(api, queue, "w0")
    async with watching(api, queue):
        await run_job(queue, 1, tokens=300)
        await eventually(lambda: costs_are(api, [("w0", "9")]))
        await run_job(queue, 2, tokens=300)
        await start(api, queue, "w1")
        while (await run_job(queue, 3, tokens=30)).worker != "w1":
            pass
        await eventually(lambda: costs_are(api, [("w0", "9"), ("w1", "5")]))


async def test_a_watch_that_expired_is_begun_anew(api: FakeKubeApi, queue: PoolQueue) -> None:
    await start(api, queue, "w0")
    async with watching(api, queue):
        api.requests.clear()
        await api.forget_versions()
        await eventually(lambda: lists_again(api))
        await api.mark_for_deletion("w0")
        await eventually(lambda: is_drained(queue, "w0"))


async def test_what_happened_while_the_api_was_away_is_seen(
    api: FakeKubeApi, queue: PoolQueue, logged: list[dict[str, Any]]
) -> None:
    await start(api, queue, "w0")
    async with watching(api, queue):
        await api.stop()
        await eventually(lambda: was_said(logged, "kubernetes is unreachable; jobs are routed on"))
        assert (await run_job(queue, 1)).worker == "w0"
        await api.mark_for_deletion("w0")
        await api.start()
        await eventually(lambda: is_drained(queue, "w0"))
        await eventually(lambda: was_said(logged, "kubernetes answers again"))
        api.cut_watches()
        await eventually(lambda: follows(api))
    said = [line["event"] for line in logged if line["event"].startswith("kubernetes")]
    assert said.count("kubernetes is unreachable; jobs are routed on") == said.count(
        "kubernetes answers again"
    )


async def test_without_leave_to_write_pods_are_drained_all_the_same(
    api: FakeKubeApi, queue: PoolQueue, logged: list[dict[str, Any]]
) -> None:
    api.refused = {"patch"}
    await start(api, queue, "w0")
    async with watching(api, queue):
        await run_job(queue, 1)
        await eventually(lambda: refused_often(api))
        await api.mark_for_deletion("w0")
        await eventually(lambda: is_drained(queue, "w0"))
    [said] = [line["error"] for line in logged if line["event"] == "pods keep their deletion cost"]
    assert said == "403 pods is forbidden: the service account cannot patch pods"


async def test_two_routers_agree(api: FakeKubeApi, queue: PoolQueue) -> None:
    await start(api, queue, "w0", "w1")
    async with watching(api, queue), watching(api, queue):
        running = await run_job(queue, 1, tokens=300)
        await eventually(lambda: has_cost(api, running.worker, "9"))
        idle = "w1" if running.worker == "w0" else "w0"
        await api.mark_for_deletion(idle)
        await eventually(lambda: is_drained(queue, idle))
    assert set(api.costs) == {(running.worker, "9")}


async def test_a_router_dispatches_while_the_api_hangs(
    api: FakeKubeApi, queue: PoolQueue, connections: Connections, redis_settings: RedisSettings
) -> None:
    api.answers.clear()
    async with routing(redis_settings):
        await eventually(lambda: asked(api))
        await Registry(connections).publish(POOL, None)
        await beat(queue, "w0")
        await queue.admit(Job(id=f"{1:032x}", pool=POOL, gateway="g", prompt=TextPrompt("")))
        await eventually(lambda: is_running(queue))
        api.answers.set()
        await api.add("w0", app="worker")
        await api.mark_for_deletion("w0")
        await eventually(lambda: is_drained(queue, "w0"))


async def test_without_a_cluster_to_watch_a_router_does_not_start(
    monkeypatch: pytest.MonkeyPatch, redis_settings: RedisSettings
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/none")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CannotStart, match=r"^router\.worker_pods: no service account .*, and no kubeconfig"):
        async with routing(redis_settings):
            pass
