"""The command on whole clusters, which are fakes: good ones, and those that lack something."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import yaml

from tests.helm.fake_kube_api.cluster import FakeCluster
from tests.preflight import clusters
from tests.preflight.conftest import Command


def test_a_cluster_that_has_all_of_it_is_ok(command: Command) -> None:
    with clusters.good() as cluster:
        status, out = command(cluster, "h200-8x")
    assert status == 0
    assert "missing, " in out
    assert ", 0 missing, 0 unknown, 0 absent" in out
    assert "1 of NVIDIA-H200 with 8 GPUs" in out
    assert "for all 13 pods, beside the pods that run" in out


def test_an_amd_cluster_is_ok_for_its_own_profile_and_not_for_another(command: Command) -> None:
    with clusters.amd() as cluster:
        status, out = command(cluster, "mi300x-8x")
        assert status == 0
        assert "1 of AMD_Instinct_MI300X_OAM with 8 GPUs" in out
        status, out = command(cluster, "h200-8x")
        assert status == 1
        assert "gpu-0 has another vendor's GPUs" in out
        status, out = command(cluster, "mi325x-8x")
        assert status == 1
        assert "GPUs are AMD_Instinct_MI300X_OAM, not AMD_Instinct_MI325X or" in out


def test_an_empty_cluster_lacks_machines_and_storage_and_nothing_optional(command: Command) -> None:
    with FakeCluster() as cluster:
        status, out = command(cluster, "h200-8x", "--namespace", "new")
    assert status == 1
    lines = [line.split() for line in out.splitlines()]
    states = {state: sum(line[:1] == [state] for line in lines) for state in ("missing", "absent", "unknown")}
    assert states == {"missing": 3, "absent": 3, "unknown": 0}
    assert "new is free: --create-namespace" in out
    assert "> add one that has the GPUs" in out
    assert "no default; there is none" in out


def test_who_may_only_log_in_hears_what_is_unknown_and_what_he_may_not(command: Command) -> None:
    with clusters.good() as cluster:
        cluster.allows = clusters.nobody
        status, out = command(cluster, "h200-8x")
    assert status == 1  # he may not install
    assert "not allowed in serving: create secrets, get secrets, list secrets, update secrets and" in out
    assert "1 missing" in out
    assert out.count("no right to read") == 6
    assert "> ask whoever may list nodes to run this" in out


def test_the_rights_of_a_namespace_are_enough_to_be_told_that_one_may_install_there(command: Command) -> None:
    with clusters.good() as cluster:
        cluster.allows = clusters.namespaces_own
        status, out = command(cluster, "h200-8x")
    assert status == 0
    assert "all in serving" in out
    assert "0 missing" in out
    assert "unknown  GPU nodes" in out


def test_it_logs_in_as_the_kubeconfig_says(command: Command, tmp_path: Path) -> None:
    with FakeCluster(token="a-token") as cluster:
        _, out = command(cluster, "cpu-dev")
        assert "ok       Kubernetes" in out
        file = tmp_path / "kubeconfig"
        file.write_text(file.read_text().replace("a-token", "another"))
        status, out = command(None, "cpu-dev")
    assert status == 1
    assert "does not accept the login" in out
    assert "1 missing" in out


def test_a_cluster_that_is_not_there_is_said_to_be_at_once(command: Command, tmp_path: Path) -> None:
    with FakeCluster() as cluster:
        pass  # its port is free now
    status, out = command(cluster, "cpu-dev")
    assert status == 1
    assert "Connection refused" in out
    assert "> is it the right context?" in out


def test_long_lists_are_read_page_by_page(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dllm_stack.preflight.cluster._PAGE", 2)
    others = [clusters.node(f"cpu-{number}") for number in range(1, 6)]
    with FakeCluster(objects=[*others, clusters.h200("z"), clusters.storage_class()]) as cluster:
        status, out = command(cluster, "h200-8x")
        asked = [path for _, path, _ in cluster.requests if path.startswith("/api/v1/nodes")]
    assert status == 0
    assert "1 of NVIDIA-H200 with 8 GPUs" in out
    assert len(asked) == 3


def test_a_cluster_that_hangs_is_left_alone_after_one_question(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("dllm_stack.preflight.cluster._CALL_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = tmp_path / "hangs"
        file.write_text(yaml.safe_dump(_kubeconfig(f"http://127.0.0.1:{silent.getsockname()[1]}")))
        monkeypatch.setenv("KUBECONFIG", str(file))
        status, out = command(None, "h200-8x")
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert status == 1
    assert "timed out" in out
    assert "1 missing" in out


def test_without_a_cluster_to_ask_it_says_what_it_tried(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    status, out = command(None, "h200-8x")
    assert status == 2
    assert "no kubeconfig at" in out
    with FakeCluster() as cluster:
        status, out = command(cluster, "h200-8x", "--context", "other")
    assert status == 2
    assert "the kubeconfig is of no use" in out
    assert "other" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["h300-8x"], "no 'h300-8x' in configs/profiles: choose b200-8x"),
        (["h200-8x", "--model", "gpt-5"], "the profile h200-8x has no model gpt-5: choose llada2.0-mini"),
        ([], "give a profile, or --manifests"),
        (["h200-8x", "--manifests", "-"], "give a profile, or --manifests"),
        (["--manifests", "nowhere.yaml"], "nowhere.yaml: "),
        (["--manifests", "-"], "-: nothing that runs is in it"),
    ],
)
def test_a_question_that_makes_no_sense_is_answered_with_a_sentence(
    command: Command, arguments: list[str], said: str
) -> None:
    status, out = command(None, *arguments, stdin="")
    assert status == 2
    assert said in out
    assert len(out.splitlines()) == 1


@pytest.mark.parametrize("text", ["a: [", "[1, 2]", "kind: Deployment\nmetadata: {name: x}", "\0"])
def test_a_file_of_no_manifests_is_refused_with_a_sentence(command: Command, text: str) -> None:
    status, out = command(None, "--manifests", "-", stdin=text)
    assert status == 2
    assert out.startswith("-: ")


def _kubeconfig(server: str) -> object:
    return {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
