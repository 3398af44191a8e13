"""Every container of the cpu-dev chart as a process, started as its manifest says, with a real engine."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionUserMessageParam

from loadtest.local_stack import START_S
from tests.helm.conftest import Manifest, Render
from tests.helm.fake_kubelet.cluster import FakeCluster
from tests.helm.fake_kubelet.node import PRIVILEGED, missing
from tests.helm.fake_kubelet.pod import Pod, status_of
from tests.waiting import eventually

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(START_S + 120),  # the start of the engine included, which the first one waits for
]

RELEASE = "dllm"  # its Services' names are prefixes of settings, should any pod be told of them
QUESTION: ChatCompletionUserMessageParam = {"role": "user", "content": "Count from 1 to 60."}
TOKENS = 160
_LISTEN = "0A"


@pytest.fixture(scope="module")
def manifests(render: Render) -> list[Manifest]:
    return render("cpu-dev", release=RELEASE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(manifests: list[Manifest]) -> AsyncIterator[FakeCluster]:
    """Installed, and rolled out by its own probes."""
    async with FakeCluster() as cluster:
        await cluster.apply(manifests)
        await cluster.rolled_out(START_S)
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(cluster: FakeCluster) -> AsyncIterator[AsyncOpenAI]:
    """Through the Service."""
    url = await cluster.forward(f"{RELEASE}-gateway", 80)
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


def pod_of(cluster: FakeCluster, component: str) -> Pod:
    (found,) = (
        pod
        for pod in cluster.living
        if pod.labels.get("app.kubernetes.io/component") == component and not pod.leaving
    )
    return found


async def test_every_container_is_ready_by_its_probes_as_who_it_is_to_be(
    cluster: FakeCluster, record: Callable[[str], None]
) -> None:
    for component in ("gateway", "router", "worker", "redis"):
        pod = pod_of(cluster, component)
        record(f"{component}: ready after {pod.at('ready') - pod.created_at:.1f} s")
        assert pod.ready
        assert pod.restarts == 0, cluster.describe(pod)
        status = status_of(pod.container().pid)
        user = 10001 if PRIVILEGED else os.geteuid()
        assert set(status["Uid"].split()) == {str(user)}
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
        assert status["NoNewPrivs"] == "1"
        assert await pod.container().execute(["sh", "-c", "! touch /etc/x /usr/x / 2>/dev/null"], 60) == 0


async def test_what_listens_in_a_pod_is_what_its_manifest_says(cluster: FakeCluster) -> None:
    """And no port of the engine, but torch's rendezvous, which SGLang opens whatever it is told."""
    for component in ("gateway", "router", "worker", "redis"):
        pod = pod_of(cluster, component)
        declared = {
            port["containerPort"] for each in pod.manifest["spec"]["containers"] for port in each["ports"]
        }
        others = reachable(pod) - declared
        assert reachable(pod) >= declared
        assert len(others) <= (1 if component == "worker" else 0), others


def reachable(pod: Pod) -> set[int]:
    """The ports on which somebody in the pod listens on more than its loopback."""
    ports = set()
    for family in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pod.container().pid}/net/{family}").read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            address, _, port = local.partition(":")
            if state == _LISTEN and not address.endswith("0100007F"):
                ports.add(int(port, 16))
    return ports


async def test_a_chat_is_streamed_through_the_service(
    client: AsyncOpenAI, record: Callable[[str], None]
) -> None:
    pieces = await chat(client)
    record(f"{len(pieces)} pieces: {''.join(pieces)!r}")
    assert len(pieces) > 2


async def chat(client: AsyncOpenAI, begun: asyncio.Event | None = None) -> list[str]:
    stream = await client.chat.completions.create(
        model="dllm-demo", messages=[QUESTION], max_tokens=TOKENS, stream=True, temperature=0
    )
    pieces, finish = [], None
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            pieces.append(chunk.choices[0].delta.content)
            if begun is not None:
                begun.set()
        if chunk.choices:
            finish = chunk.choices[0].finish_reason or finish
    assert finish in ("stop", "length")
    return pieces


async def test_the_pod_of_helm_test_succeeds(cluster: FakeCluster, manifests: list[Manifest]) -> None:
    (hook,) = (
        each for each in manifests if each["metadata"].get("annotations", {}).get("helm.sh/hook") == "test"
    )
    pod = await cluster.run(hook, within_s=240)
    assert pod.phase == "Succeeded", cluster.describe(pod)


@pytest.mark.skipif("DLLM_TEST_PODS" not in os.environ, reason="takes a minute: make show-pods")
@pytest.mark.parametrize("component", ["gateway", "router"])
async def test_a_process_that_is_wedged_is_killed_and_started_again(
    cluster: FakeCluster, client: AsyncOpenAI, component: str, record: Callable[[str], None]
) -> None:
    pod = pod_of(cluster, component)
    began = time.monotonic()
    pod.container().signal(signal.SIGSTOP)

    async def is_back() -> bool:
        return pod.restarts == 1 and pod.ready

    await eventually(is_back, within_s=150)
    record(f"{component} wedged: {cluster.describe(pod).partition('{')[0].strip()}")
    record(f"{component}: back {time.monotonic() - began:.0f} s after it was stopped")
    assert pod.statuses == [137]
    # As a client does by default: its connection to the gateway has broken.
    assert len(await chat(client.with_options(max_retries=4))) > 2


async def test_sigterm_lets_an_open_stream_end_and_nothing_is_left(
    cluster: FakeCluster, client: AsyncOpenAI, manifests: list[Manifest], record: Callable[[str], None]
) -> None:
    """All but Redis are deleted at once, while an answer is on its way."""
    undisturbed = "".join(await chat(client))
    pods = [pod_of(cluster, component) for component in ("gateway", "router", "worker")]
    processes = [each for pod in pods for each in family(pod)]
    begun = asyncio.Event()
    stream = asyncio.create_task(chat(client, begun))
    await begun.wait()
    began = time.monotonic()
    await cluster.apply([each for each in manifests if each["kind"] != "Deployment"])
    assert "".join(await stream) == undisturbed
    answered_s = time.monotonic() - began
    await cluster.gone(120)
    for pod in pods:
        took_s = pod.at("gone") - pod.at("deleted")
        of = f"{took_s:.1f} s of its {pod.grace_s:.0f} s"
        record(f"{pod.name}: gone within {of}; ended with {pod.statuses}")
        assert pod.statuses[-1] == 0, cluster.describe(pod)
        assert took_s < pod.grace_s
    record(f"the stream ended {answered_s:.1f} s after the deletion")
    redis = pod_of(cluster, "redis")
    processes += family(redis)
    await cluster.apply([])
    await cluster.gone(120)
    assert redis.statuses == [0]
    assert not [process for process in processes if process.is_running() and process.status() != "zombie"]


def family(pod: Pod) -> list[psutil.Process]:
    process = psutil.Process(pod.container().pid)
    return [process, *process.children(recursive=True)]
