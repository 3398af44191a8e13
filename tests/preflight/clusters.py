"""Fake clusters for preflight: what their nodes, classes and namespaces look like."""

from __future__ import annotations

from tests.helm.fake_kube_api.cluster import FakeCluster
from tests.helm.fake_kube_api.kinds import GATEWAY_API, KEDA, PROMETHEUS_OPERATOR, Kind, Object

NAMESPACE = "serving"
NVIDIA = "nvidia.com/gpu"
AMD = "amd.com/gpu"


def node(
    name: str,
    gpus: dict[str, int] | None = None,
    labels: dict[str, str] | None = None,
    taints: list[Object] | None = None,
    *,
    cpu: int = 128,
    memory: str = "2000Gi",
    ready: bool = True,
    cordoned: bool = False,
) -> Object:
    """A big machine."""
    amounts = {"cpu": str(cpu), "memory": memory, "ephemeral-storage": "2000Gi", "pods": "110"}
    amounts |= {resource: str(count) for resource, count in (gpus or {}).items()}
    spec: Object = {"taints": taints or []}
    if cordoned:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def h200(name: str, **more: object) -> Object:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200"}
    taint = {"key": NVIDIA, "value": "present", "effect": "NoSchedule"}
    return node(name, {NVIDIA: 8}, labels, [taint], **more)  # type: ignore[arg-type]


def storage_class(
    name: str = "fast", provisioner: str = "ebs.csi.aws.com", *, default: bool = True
) -> Object:
    annotations = {"storageclass.kubernetes.io/is-default-class": str(default).lower()}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": annotations},
        "provisioner": provisioner,
    }


def namespace(**labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def quota(hard: dict[str, str], used: dict[str, str] | None = None) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team", "namespace": NAMESPACE},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": used or {}},
    }


def limit_range(**limits: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "team", "namespace": NAMESPACE},
        "spec": {"limits": [{"type": "Container", **limits}]},
    }


def pod(name: str, on: str, requests: dict[str, str], *, ended: bool = False) -> Object:
    """Of somebody else."""
    container = {"name": "c", "image": "x.example/y:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": on,
            "containers": [container],
            "restartPolicy": "Never" if ended else "Always",
        },
    }


def good(*objects: Object, version: str = "1.35") -> FakeCluster:
    """A machine with eight H200, one without, and all operators."""
    there = [h200("gpu-0"), node("cpu-0"), storage_class(), namespace()]
    return FakeCluster(version, (*KEDA, *PROMETHEUS_OPERATOR, *GATEWAY_API), [*there, *objects])


def amd() -> FakeCluster:
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
    return FakeCluster(objects=[node("gpu-0", {AMD: 8}, labels), storage_class()])


def nobody(verb: str, kind: Kind, where: str | None) -> bool:
    """Of one who may log in."""
    return False


def namespaces_own(verb: str, kind: Kind, where: str | None) -> bool:
    """Of one to whom the namespace belongs, and nothing else."""
    return kind.namespaced and where == NAMESPACE
