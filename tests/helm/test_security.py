"""Every pod passes the Pod Security Standard `restricted`, and has no rights that it does not use."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from deploy.charts import matrix
from deploy.charts.helm import Manifest, pod_of
from dllm_stack.preflight.pod_security import violations

Pod = dict[str, Any]

# The volume that `restricted` does not have: docs/helm.md says so.
BEYOND = {"cpu-dev: weights-on-nodes": {"volumes.weights: hostPath is not allowed"}}


@pytest.fixture(scope="module")
def rendered() -> dict[str, list[Manifest]]:
    return {
        case.name: case.manifests()
        for case in matrix.cases()
        if not case.values or case.chart.name == "cpu-dev" or case.name.endswith("everything")
    }


def test_every_pod_of_every_chart_is_restricted(rendered: dict[str, list[Manifest]]) -> None:
    for name, manifests in rendered.items():
        pods = [pod for manifest in manifests if (pod := pod_of(manifest)) is not None]
        assert len(pods) >= 4, name
        assert {v for pod in pods for v in violations(pod, "restricted")} == BEYOND.get(name, set()), name


def test_files_of_images_cannot_be_written(rendered: dict[str, list[Manifest]]) -> None:
    for manifests in rendered.values():
        for pod in filter(None, map(pod_of, manifests)):
            for container in [*pod.get("initContainers", []), *pod["containers"]]:
                assert container["securityContext"]["readOnlyRootFilesystem"] is True, container["name"]


def test_only_routers_have_an_account_and_it_may_only_look_at_pods_and_mark_them(
    rendered: dict[str, list[Manifest]],
) -> None:
    for manifests in rendered.values():
        with_token = {
            manifest["metadata"]["name"]
            for manifest in manifests
            if (pod := pod_of(manifest)) and pod["automountServiceAccountToken"]
        }
        assert with_token == {"x-router"}
        (role,) = [manifest for manifest in manifests if manifest["kind"] == "Role"]
        assert role["rules"] == [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]}
        ]
        assert not {"ClusterRole", "ClusterRoleBinding"} & {manifest["kind"] for manifest in manifests}


def test_secrets_are_not_in_environments_but_by_reference(rendered: dict[str, list[Manifest]]) -> None:
    for manifests in rendered.values():
        for pod in filter(None, map(pod_of, manifests)):
            for container in [*pod.get("initContainers", []), *pod["containers"]]:
                for variable in container.get("env", []):
                    if variable["name"] in ("REDIS_PASSWORD", "HF_TOKEN", "API_KEY"):
                        assert "secretKeyRef" in variable["valueFrom"], variable["name"]


SAFE: Pod = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "a",
            "ports": [{"containerPort": 80}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
    "volumes": [{"name": "v", "emptyDir": {}}],
}


def _of_pod(**fields: Any) -> Callable[[Pod], Any]:
    return lambda pod: pod.update(fields)


def _of_context(**fields: Any) -> Callable[[Pod], Any]:
    return lambda pod: pod["securityContext"].update(fields)


def _of_container(**fields: Any) -> Callable[[Pod], Any]:
    return lambda pod: pod["containers"][0].update(fields)


def _of_container_context(**fields: Any) -> Callable[[Pod], Any]:
    return lambda pod: pod["containers"][0]["securityContext"].update(fields)


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (_of_pod(hostNetwork=True), "hostNetwork"),
        (_of_pod(hostPID=True), "hostPID"),
        (_of_pod(hostIPC=True), "hostIPC"),
        (_of_pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), "hostPath"),
        (_of_pod(volumes=[{"name": "v", "nfs": {}}]), "nfs"),
        (_of_pod(initContainers=[{"name": "b"}]), "initContainers.b: allowPrivilegeEscalation"),
        (_of_context(runAsUser=0), "runAsUser"),
        (_of_context(runAsNonRoot=False), "runAsNonRoot"),
        (_of_context(seccompProfile={"type": "Unconfined"}), "seccompProfile"),
        (_of_context(appArmorProfile={"type": "Unconfined"}), "appArmorProfile"),
        (_of_context(sysctls=[{"name": "kernel.msgmax", "value": "1"}]), "kernel.msgmax"),
        (_of_context(seLinuxOptions={"type": "spc_t"}), "spc_t"),
        (_of_context(windowsOptions={"hostProcess": True}), "hostProcess"),
        (_of_container(ports=[{"containerPort": 80, "hostPort": 80}]), "hostPort"),
        (_of_container(livenessProbe={"httpGet": {"host": "169.254.169.254"}}), "livenessProbe.httpGet.host"),
        (_of_container(lifecycle={"preStop": {"tcpSocket": {"host": "x"}}}), "preStop.tcpSocket.host"),
        (_of_container_context(privileged=True), "privileged"),
        (_of_container_context(allowPrivilegeEscalation=None), "allowPrivilegeEscalation"),
        (_of_container_context(runAsNonRoot=False), "runAsNonRoot"),
        (_of_container_context(runAsUser=0), "runAsUser"),
        (_of_container_context(procMount="Unmasked"), "procMount"),
        (_of_container_context(seLinuxOptions={"user": "root"}), "seLinuxOptions.user"),
        (_of_container_context(capabilities={"drop": ["NET_RAW"]}), "capabilities.drop"),
        (_of_container_context(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}), "SYS_ADMIN"),
    ],
)
def test_what_restricted_refuses_is_seen(change: Callable[[Pod], Any], seen: str) -> None:
    pod = copy.deepcopy(SAFE)
    assert violations(pod, "restricted") == []
    change(pod)
    assert any(seen in violation for violation in violations(pod, "restricted")), violations(
        pod, "restricted"
    )
