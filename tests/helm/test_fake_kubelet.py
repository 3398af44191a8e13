"""The fake kubelet does what a kubelet does, with containers of a line or two; and what our processes do in a
container that no other test of theirs sees."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.helm.fake_kubelet.cluster import FakeCluster
from tests.helm.fake_kubelet.environment import ManifestError
from tests.helm.fake_kubelet.image import Image
from tests.helm.fake_kubelet.node import PRIVILEGED, missing
from tests.helm.fake_kubelet.pod import Pod, status_of
from tests.helm.fake_kubelet.workloads import DELETION_COST
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

Manifest = dict[str, Any]
HTTP = "python -m http.server --bind 0.0.0.0 8000 & trap 'exit 0' TERM; wait"


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(
        {"python": Image(user=10001), "stack": Image(["dllm-stack"], user=10001)}
    ) as cluster:
        yield cluster


def container(script: str, **more: Any) -> Manifest:
    return {"name": "main", "image": "python", "command": ["sh", "-c", script], **more}


def pod(*containers: Manifest, name: str = "alone", **spec: Any) -> Manifest:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": list(containers), "restartPolicy": "Never", **spec},
    }


def deployment(*containers: Manifest, replicas: int = 1, **strategy: Any) -> Manifest:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": list(containers)}}
    spec = {"replicas": replicas, "template": template, "strategy": {"rollingUpdate": strategy}}
    return {"kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def start(cluster: FakeCluster, manifest: Manifest) -> Pod:
    return cluster.create({"metadata": manifest["metadata"]}, manifest, {}, manifest["metadata"]["name"])


async def happens(pod: Pod, what: str, times: int = 1) -> None:
    async def happened() -> bool:
        return sum(event.what.startswith(what) for event in pod.events) >= times

    await eventually(happened, within_s=120)


def order(pod: Pod) -> list[str]:
    return [event.what for event in pod.events]


async def test_a_container_is_what_its_manifest_says(cluster: FakeCluster) -> None:
    config = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a.yaml": "x: 1", "b": "from a map"}}
    secret = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"password": "aHVzaA=="}}
    service = {"kind": "Service", "metadata": {"name": "dllm-db"}, "spec": {"ports": [{"port": 5432}]}}
    await cluster.apply([config, secret, service])
    shown = """
        echo user $(id -u) groups $(id -G) host $(hostname) process $$$$ folder $(pwd)
        echo env "$PASSWORD" "$URL" "$FROM_MAP" "$NAME" "$LITERAL" "$DLLM_DB_SERVICE_HOST"
        cat /etc/dllm/a.yaml; echo
        touch /etc/dllm/a.yaml /x 2>&1 | sed 's/^/refused: /'
        touch /tmp/x /scratch/x && echo written
        df /dev/shm | tail -1
        grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status
        getent hosts dllm-db.serving.svc
        cat "$0" "$1"
    """
    env = [
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}},
        {"name": "URL", "value": "redis://:$(PASSWORD)@db/$(MISSING)"},
        {"name": "FROM_MAP", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "b"}}},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "LITERAL", "value": "$$(PASSWORD)"},
    ]
    mounts = [("c", "/etc/dllm"), ("tmp", "/tmp"), ("scratch", "/scratch"), ("shm", "/dev/shm")]
    shown_by = container(
        shown,
        env=env,
        args=["/etc/dllm/b", "$(NAME)"],
        workingDir="/tmp",
        volumeMounts=[{"name": name, "mountPath": path} for name, path in mounts],
        securityContext={"readOnlyRootFilesystem": True},
    )
    volumes = [
        {"name": "c", "configMap": {"name": "c"}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
    ]
    context = {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10002, "runAsNonRoot": True}
    ended = await cluster.run(pod(shown_by, volumes=volumes, securityContext=context), within_s=120)
    log = ended.log()
    groups = "10001 10002" if PRIVILEGED else "10001"
    assert f"user 10001 groups {groups} host alone process 1 folder /tmp" in log, log
    address = cluster.services["dllm-db"].address
    assert f"env hush redis://:hush@db/$(MISSING) from a map alone $(PASSWORD) {address}" in log
    assert "x: 1" in log
    assert log.count("refused: ") == 2
    assert "written" in log
    assert "2097152" in log
    assert "CapEff:\t0000000000000000" in log
    assert "NoNewPrivs:\t1" in log
    assert f"{address}" in log
    assert "from a map" in log  # its first argument
    assert "alone: No such file" in log  # and its second


async def test_what_cannot_be_started_is_refused(cluster: FakeCluster) -> None:
    for broken, why in (
        (
            pod(
                container(
                    "true", env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
                )
            ),
            "Secret s",
        ),
        (pod(container("true", volumeMounts=[{"name": "v", "mountPath": "/v"}])), "mounts v"),
        (pod({**container("true"), "image": "busybox"}), "busybox"),
        (pod(container("true", securityContext={"runAsUser": 0, "runAsNonRoot": True})), "root"),
    ):
        with pytest.raises(ManifestError, match=why):
            start(cluster, broken)


async def test_init_containers_come_first_and_share_volumes(cluster: FakeCluster) -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    first = {**container("echo fetched >/v/weights", **mount), "name": "weights"}
    whole = pod(
        container("cat /v/weights", **mount), initContainers=[first], volumes=[{"name": "v", "emptyDir": {}}]
    )
    ended = await cluster.run(whole, within_s=120)
    assert (ended.phase, ended.log()) == ("Succeeded", "\nfetched\n")


async def test_a_pod_ends_by_its_hook_then_sigterm_then_sigkill(cluster: FakeCluster) -> None:
    polite = container(
        "trap 'echo asked; exit 7' TERM; while :; do sleep 0.1; done",
        lifecycle={"preStop": {"exec": {"command": ["sleep", "0.5"]}}},
    )
    deaf = container("while :; do sleep 0.1; done")
    one = start(cluster, pod(polite, name="polite"))
    other = start(cluster, pod(deaf, name="deaf", terminationGracePeriodSeconds=1))
    await asyncio.gather(happens(one, "ready"), happens(other, "ready"))
    for each in (one, other):
        cluster.delete(each)
    await cluster.gone(120)
    assert [what for what in order(one) if what[:3] in ("del", "pre", "SIG", "end", "gon")] == [
        "deleted", "preStop", "SIGTERM", "ended with 7", "gone",
    ]  # fmt: skip
    assert one.log().endswith("asked\n")
    # As process 1 it has no default action: the signal is lost.
    assert [what for what in order(other) if what[:3] in ("SIG", "end")] == [
        "SIGTERM",
        "SIGKILL",
        "ended with 137",
    ]
    assert other.at("SIGKILL") - other.at("SIGTERM") >= 1


async def test_probes_decide_who_is_sent_what(cluster: FakeCluster) -> None:
    get = {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 0.2, "timeoutSeconds": 60}
    web = container(
        f"cd /tmp; {HTTP}",
        ports=[{"name": "http", "containerPort": 8000}],
        startupProbe={**get, "failureThreshold": 1000},
        readinessProbe={**get, "httpGet": {"path": "/open", "port": 8000}, "failureThreshold": 1},
        livenessProbe={
            "exec": {"command": ["test", "!", "-e", "/tmp/wedged"]},
            "periodSeconds": 0.2,
            "timeoutSeconds": 60,
        },
    )
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}
    service = {"kind": "Service", "metadata": {"name": "web"}, "spec": spec}
    await cluster.apply([deployment(web), service])

    async def there_is_one() -> bool:
        return bool(cluster.of("web"))

    await eventually(there_is_one, within_s=120)
    (only,) = cluster.of("web")
    await happens(only, "startup done")
    assert not only.ready
    url = f"http://{cluster.services['web'].address}/"
    with pytest.raises(aiohttp.ClientError):
        await status(cluster, url)
    assert await only.container().execute(["touch", "/tmp/open"], 60) == 0
    await happens(only, "ready")

    async def is_served() -> bool:
        return bool(cluster.services["web"].endpoints)

    await eventually(is_served, within_s=120)
    assert await status(cluster, url) == 200
    assert await only.container().execute(["touch", "/tmp/wedged"], 60) == 0
    await happens(only, "liveness failed")
    await happens(only, "started", times=2)
    assert only.restarts == 1


async def status(cluster: FakeCluster, url: str) -> int:
    async with cluster.http() as http, http.get(url) as response:
        return response.status


async def test_a_rollout_keeps_to_its_strategy(cluster: FakeCluster) -> None:
    ready = {
        "exec": {"command": ["true"]},
        "periodSeconds": 0.5,
        "initialDelaySeconds": 0.2,
        "timeoutSeconds": 60,
    }
    quick = container("trap 'exit 0' TERM; while :; do sleep 0.1; done", readinessProbe=ready)
    await cluster.apply([deployment(quick, replicas=3)])
    await cluster.rolled_out(120)
    for surge, unavailable, most, fewest in ((1, 0, 4, 3), (0, 1, 3, 2)):
        before = set(cluster.pods)
        new = {**quick, "env": [{"name": "SURGE", "value": str(surge)}]}
        await cluster.apply([deployment(new, replicas=3, maxSurge=surge, maxUnavailable=unavailable)])
        seen = []
        while not next(iter(cluster.workloads.values())).done:
            pods = cluster.of("web")
            seen.append((len(pods), sum(pod.ready for pod in pods)))
            await asyncio.sleep(0.01)
        assert max(count for count, _ in seen) == most
        assert min(ready for _, ready in seen) == fewest
        assert not before & {pod.name for pod in cluster.of("web")}


async def test_a_scale_down_takes_the_cheapest(cluster: FakeCluster) -> None:
    quick = container("trap 'exit 0' TERM; while :; do sleep 0.1; done")
    await cluster.apply([deployment(quick, replicas=3)])
    await cluster.rolled_out(120)
    oldest, *others = cluster.of("web")
    for pod in others:
        cluster.api._pods[pod.name]["metadata"]["annotations"] = {DELETION_COST: "5"}
    await cluster.apply([deployment(quick, replicas=2)])
    await happens(oldest, "gone")
    assert cluster.of("web") == others


async def test_nothing_is_left_of_a_cluster() -> None:
    async with FakeCluster({"python": Image(user=10001)}) as cluster:
        one = start(cluster, pod(container("sleep 600 & sleep 600"), name="one"))
        await happens(one, "ready")
        process, folder = one.container().pid, cluster.folder
        assert alive(process)
    assert not alive(process)
    assert not folder.exists()


def alive(process: int) -> bool:
    try:
        return not status_of(process)["State"].startswith("Z")
    except FileNotFoundError:
        return False


# What our processes do as process 1


@pytest.mark.parametrize("service", ["gateway", "router", "worker"])
async def test_a_pod_that_is_deleted_while_it_starts_does_not_wait_for_its_grace(
    cluster: FakeCluster, service: str
) -> None:
    begins = {"name": service, "image": "stack", "args": [service]}
    one = start(cluster, pod(begins, name=service, terminationGracePeriodSeconds=600))
    await happens(one, "started")
    process = one.container().pid

    async def heeds_sigterm() -> bool:
        return bool(int(status_of(process)["SigCgt"], 16) >> signal.SIGTERM - 1 & 1)

    await eventually(heeds_sigterm, within_s=120)
    cluster.delete(one)
    await cluster.gone(120)
    assert "SIGKILL" not in order(one)
    assert one.statuses == [0]
    assert "Traceback" not in one.log()


BURIED = """
import asyncio, sys, tempfile
from pathlib import Path
import psutil
from worker.engine.command import EngineCommand
from worker.engine.process import EngineProcess

PARENT = "import subprocess; [subprocess.Popen(['sleep', '600']) for _ in range(3)]; print('up', flush=True)"

async def main():
    with tempfile.TemporaryDirectory() as folder:
        command = EngineCommand([sys.executable, "-c", PARENT + "; input()"], {}, {}, 32, "8")
        engine = await EngineProcess.start(command, "http://127.0.0.1:9", Path(folder))
        while "up" not in engine.tail():
            await asyncio.sleep(0.05)
        await engine.stop()
        print("left:", [child.status() for child in psutil.process_iter() if child.pid != 1])

asyncio.run(main())
"""


async def test_a_worker_that_is_process_1_buries_its_engines_children(cluster: FakeCluster) -> None:
    ended = await cluster.run(pod({**container(""), "command": ["python", "-c", BURIED]}), within_s=120)
    assert ended.log().endswith("left: []\n"), ended.log()
