"""The router's Kubernetes client, against a fake of the API server."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kubernetes.aio.config import incluster_config

from router import cluster as clusters
from router.cluster import Change, Cluster, ClusterError, Expired, NoCluster
from tests.router.fake_kube_api import NAMESPACE, TOKEN, FakeKubeApi, running

OPENSSL = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
OPENSSL += ["-subj", "/CN=api", "-addext", "subjectAltName=IP:127.0.0.1"]
OPENSSL += ["-addext", "keyUsage=critical,digitalSignature,keyCertSign"]


@pytest.fixture
async def api() -> AsyncIterator[FakeKubeApi]:
    async with running() as api:
        yield api


@pytest.fixture
async def cluster(
    api: FakeKubeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Cluster]:
    monkeypatch.setenv("KUBECONFIG", str(api.write_kubeconfig(tmp_path)))
    cluster = await Cluster.connect("app=worker", None)
    yield cluster
    await cluster.aclose()


def names(change: Change) -> tuple[str, str | None]:
    return change.kind, None if change.pod is None else change.pod.name


async def version(cluster: Cluster) -> str:
    return (await cluster.pods()).metadata.resource_version


async def test_only_the_selected_pods_are_listed(api: FakeKubeApi, cluster: Cluster) -> None:
    await api.add("w0", app="worker")
    await api.add("gateway", app="gateway")
    (pod,) = (await cluster.pods()).items
    assert (pod.name, pod.leaving, pod.deletion_cost) == ("w0", False, "0")


async def test_changes_come_as_they_happen(api: FakeKubeApi, cluster: Cluster) -> None:
    changes = cluster.changes(await version(cluster))
    assert names(await anext(changes)) == ("nothing", None)
    await api.add("gateway", app="gateway")
    await api.add("w0", app="worker")
    assert names(await anext(changes)) == ("changed", "w0")
    await api.mark_for_deletion("w0")
    marked = await anext(changes)
    assert marked.pod is not None
    assert marked.pod.leaving
    await api.bookmark()
    bookmark = await anext(changes)
    assert names(bookmark) == ("nothing", None)
    assert int(bookmark.version) > int(marked.version)
    await api.remove("w0")
    assert names(await anext(changes)) == ("deleted", "w0")
    await changes.aclose()


async def test_an_expired_version_is_told_apart(api: FakeKubeApi, cluster: Cluster) -> None:
    old = await version(cluster)
    changes = cluster.changes(old)
    await anext(changes)
    await api.forget_versions()
    with pytest.raises(Expired, match="too old"):
        await anext(changes)


async def test_a_cut_watch_is_an_error(api: FakeKubeApi, cluster: Cluster) -> None:
    changes = cluster.changes(await version(cluster))
    await anext(changes)
    api.cut_watches()
    with pytest.raises(ClusterError):
        await anext(changes)


async def test_a_deletion_cost_is_written(api: FakeKubeApi, cluster: Cluster) -> None:
    await api.add("w0", app="worker")
    await cluster.set_deletion_cost("w0", "11")
    pod = await cluster.pod("w0")
    assert pod is not None
    assert pod.deletion_cost == "11"


async def test_a_pod_that_is_gone_is_no_error(cluster: Cluster) -> None:
    assert await cluster.pod("w0") is None
    await cluster.set_deletion_cost("w0", "11")


async def test_what_the_api_refuses_says_why(api: FakeKubeApi, cluster: Cluster) -> None:
    api.refused = {"list", "watch"}
    with pytest.raises(ClusterError, match=r"403 .*cannot list pods"):
        await cluster.pods()
    with pytest.raises(ClusterError, match=r"403 .*cannot watch pods"):
        await anext(cluster.changes("1"))


async def test_an_api_that_hangs_is_given_up(
    api: FakeKubeApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "_CALL_S", 0.1)
    api.answers.clear()
    with pytest.raises(ClusterError, match=r"no answer within 0\.1 s"):
        await cluster.pods()
    api.answers.set()


async def test_without_a_cluster_it_says_what_was_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nowhere, nonsense = tmp_path / "none", tmp_path / "nonsense"
    nonsense.write_text("nonsense")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for path in (nowhere, nonsense):
        monkeypatch.setenv("KUBECONFIG", str(path))
        with pytest.raises(NoCluster, match=f"no service account .*no kubeconfig at {path}"):
            await Cluster.connect("app=worker", None)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "ca.crt", folder / "key"
    subprocess.run([*OPENSSL, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
async def test_in_a_pod_its_service_account_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "namespace").write_text(NAMESPACE)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(certificate))
    monkeypatch.setattr(clusters, "_SERVICE_ACCOUNT", tmp_path)
    async with running(tls) as api:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.port))
        await api.add("w0", app="worker")
        cluster = await Cluster.connect("app=worker", None)
        assert [pod.name for pod in (await cluster.pods()).items] == ["w0"]
        await cluster.aclose()
