"""Checks of what the cluster as a whole brings: its version, volumes, images, operators."""

from __future__ import annotations

import re

from dllm_stack.preflight.cluster import Cluster, NoAnswer, Unreadable
from dllm_stack.preflight.finding import Finding
from dllm_stack.preflight.needs import Claim, Kind, Needs, Object

OLDEST = (1, 29)
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
# Disks, which one node mounts.
_BLOCK_ONLY = {
    "ebs.csi.aws.com",
    "pd.csi.storage.gke.io",
    "disk.csi.azure.com",
    "rancher.io/local-path",
    "kubernetes.io/no-provisioner",
}


def version(cluster: Cluster) -> Finding:
    """
    Raises:
        NoAnswer: nothing else needs to be asked then.
    """
    check = "Kubernetes"
    try:
        content = cluster.read("/version") or {}
    except NoAnswer:
        raise
    except Unreadable as error:
        return Finding(check, "unknown", str(error))
    said = content.get("gitVersion", "")
    numbers = re.match(r"v?(\d+)\.(\d+)", said)
    if numbers is None:
        return Finding(check, "unknown", f"calls itself {said!r}")
    if (int(numbers[1]), int(numbers[2])) < OLDEST:
        return Finding(check, "missing", f"{said} is too old", "upgrade to 1.29 or newer")
    return Finding(check, "ok", f"{said} at {cluster.address}")


def images(needs: Needs) -> list[Finding]:
    """That nodes can pull them is for the nodes to say."""
    if not needs.exact:
        return []
    names = {container["image"] for workload in needs.workloads for container in workload.containers}
    homeless = sorted(name for name in names if not _has_registry(name))
    if homeless:
        found = f"{', '.join(homeless)} would be looked for on Docker Hub"
        return [Finding("images", "missing", found, "--set dllm-stack.image.registry=YOURS")]
    return [Finding("images", "ok", f"from {', '.join(sorted({name.split('/')[0] for name in names}))}")]


def _has_registry(image: str) -> bool:
    first, slash, _ = image.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")


def storage(cluster: Cluster, needs: Needs) -> list[Finding]:
    if not needs.claims:
        return []
    try:
        classes = {
            content["metadata"]["name"]: content
            for content in cluster.all("/apis/storage.k8s.io/v1/storageclasses")
        }
    except Unreadable as error:
        return [Finding("storage class", "unknown", str(error), "kubectl get storageclass, by whoever may")]
    return [_class_of(claim, classes) for claim in needs.claims]


def _class_of(claim: Claim, classes: dict[str, Object]) -> Finding:
    check = f"storage class for {claim.name}"
    known = ", ".join(sorted(classes)) or "none"
    name = claim.class_name
    if name is None:
        name = next((name for name, content in classes.items() if _is_default(content)), None)
        if name is None:
            advice = "name one in the values (className), or: kubectl annotate storageclass NAME " + (
                f"{_DEFAULT}=true"
            )
            return Finding(check, "missing", f"no default; there is {known}", advice)
    if name not in classes:
        return Finding(check, "missing", f"no {name}; there is {known}", "name one of these in the values")
    provisioner = classes[name].get("provisioner", "")
    if claim.mode == "ReadWriteMany" and provisioner in _BLOCK_ONLY:
        found = f"{name} makes disks ({provisioner}), which one node mounts"
        return Finding(check, "missing", found, "name a class of a shared file system")
    return Finding(check, "ok", f"{name} ({provisioner})")


def _is_default(content: Object) -> bool:
    return (content["metadata"].get("annotations") or {}).get(_DEFAULT) == "true"


_OPERATORS = (
    (Kind("keda.sh", "v1alpha1", "ScaledObject"), "KEDA", "scaling of pools by their queue"),
    (
        Kind("monitoring.coreos.com", "v1", "PodMonitor"),
        "Prometheus operator",
        "monitoring.podMonitors and monitoring.rules",
    ),
    (Kind("gateway.networking.k8s.io", "v1", "HTTPRoute"), "Gateway API", "gateway.route"),
)


def operators(cluster: Cluster, needs: Needs) -> list[Finding]:
    findings = []
    for kind, name, purpose in _OPERATORS:
        used = any(other.group == kind.group for other in needs.kinds)
        try:
            there = _is_served(cluster, kind)
        except Unreadable as error:
            findings.append(Finding(name, "unknown", str(error)))
            continue
        if there:
            findings.append(Finding(name, "ok", f"{kind.group}/{kind.version} is there"))
        elif used:
            advice = f"install it, or leave {purpose} off"
            findings.append(
                Finding(name, "missing", f"no {kind.name} in {kind.group}/{kind.version}", advice)
            )
        else:
            findings.append(Finding(name, "absent", f"without it, no {purpose}"))
    return findings


def _is_served(cluster: Cluster, kind: Kind) -> bool:
    content = cluster.read(f"/apis/{kind.group}/{kind.version}")
    return any(entry["name"] == kind.plural for entry in (content or {}).get("resources", []))


def classes(cluster: Cluster, needs: Needs) -> list[Finding]:
    """Of ingresses, priorities and runtimes, where the values name some."""
    pods = [workload.pod for workload in needs.workloads]
    wanted = {
        ("priority class", "scheduling.k8s.io", "priorityclasses"): _named(pods, "priorityClassName"),
        ("runtime class", "node.k8s.io", "runtimeclasses"): _named(pods, "runtimeClassName"),
        ("ingress class", "networking.k8s.io", "ingressclasses"): set(needs.ingress_classes),
    }
    return [
        _class(cluster, f"{what} {name}", f"/apis/{group}/v1/{plural}/{name}")
        for (what, group, plural), names in wanted.items()
        for name in sorted(names)
    ]


def _named(pods: list[Object], field: str) -> set[str]:
    return {pod[field] for pod in pods if pod.get(field)}


def _class(cluster: Cluster, check: str, path: str) -> Finding:
    try:
        there = cluster.read(path)
    except Unreadable as error:
        return Finding(check, "unknown", str(error))
    if there is None:
        return Finding(check, "missing", "is not there", "make it, or name another in the values")
    return Finding(check, "ok", "is there")
