"""What manifests of a release name of one another: it has to be there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deploy.charts.helm import Manifest, pod_of

# Fields that name an object of this kind, wherever they are in a pod.
_IN_PODS = {
    "configMap": ("ConfigMap", "name"),
    "configMapKeyRef": ("ConfigMap", "name"),
    "configMapRef": ("ConfigMap", "name"),
    "secret": ("Secret", "secretName"),
    "secretKeyRef": ("Secret", "name"),
    "secretRef": ("Secret", "name"),
    "persistentVolumeClaim": ("PersistentVolumeClaim", "claimName"),
}


def dangling(manifests: list[Manifest], given: set[str]) -> list[str]:
    """References that lead nowhere.

    Args:
        given: names of what the values say that there is beside the release.
    """
    there = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}
    wanted = [reference for manifest in manifests for reference in _references(manifest)]
    missing = [
        f"{who}: no {kind}/{name}"
        for who, kind, name in wanted
        if (kind, name) not in there and name not in given
    ]
    return missing + _without_pods(manifests) + _without_ports(manifests)


def _references(manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    who = f"{manifest['kind']}/{manifest['metadata']['name']}"
    spec = manifest.get("spec", {})
    if (pod := pod_of(manifest)) is not None:
        yield from ((who, kind, name) for kind, name in _in_pod(pod))
        if account := pod.get("serviceAccountName"):
            yield who, "ServiceAccount", account
    if target := spec.get("scaleTargetRef"):
        yield who, target.get("kind", "Deployment"), target["name"]
    if manifest["kind"] == "StatefulSet":
        yield who, "Service", spec["serviceName"]
    if manifest["kind"] == "RoleBinding":
        yield who, manifest["roleRef"]["kind"], manifest["roleRef"]["name"]
        yield from ((who, subject["kind"], subject["name"]) for subject in manifest["subjects"])
    yield from ((who, "Service", backend["name"]) for backend in _backends(manifest))


def _in_pod(node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, list):
        for item in node:
            yield from _in_pod(item)
    if isinstance(node, dict):
        for key, value in node.items():
            if key in _IN_PODS and isinstance(value, dict):
                kind, field = _IN_PODS[key]
                if field in value:
                    yield kind, value[field]
            yield from _in_pod(value)


def _backends(manifest: Manifest) -> list[dict[str, Any]]:
    """Services that a route leads to."""
    rules = manifest.get("spec", {}).get("rules", [])
    if manifest["kind"] == "Ingress":
        return [path["backend"]["service"] for rule in rules for path in rule["http"]["paths"]]
    if manifest["kind"] == "HTTPRoute":
        return [backend for rule in rules for backend in rule["backendRefs"]]
    return []


def _templates(manifests: list[Manifest]) -> list[dict[str, Any]]:
    of_workloads = [m["spec"]["template"] for m in manifests if "template" in m.get("spec", {})]
    return of_workloads + [m for m in manifests if m["kind"] == "Pod"]


def _selector(manifest: Manifest) -> dict[str, str] | None:
    selector = manifest.get("spec", {}).get("selector")
    if selector is None:
        return None
    labels: dict[str, str] = selector.get("matchLabels", {} if "matchExpressions" in selector else selector)
    return labels


def _without_pods(manifests: list[Manifest]) -> list[str]:
    labels = [template["metadata"]["labels"] for template in _templates(manifests)]
    return [
        f"{manifest['kind']}/{manifest['metadata']['name']} selects no pod"
        for manifest in manifests
        if (wanted := _selector(manifest)) is not None
        and not any(wanted.items() <= of_pod.items() for of_pod in labels)
    ]


def _without_ports(manifests: list[Manifest]) -> list[str]:
    """Services whose pods do not have the port, and routes whose Service does not."""
    services = {m["metadata"]["name"]: m["spec"] for m in manifests if m["kind"] == "Service"}
    missing = []
    for name, spec in services.items():
        for template in _templates(manifests):
            if not spec["selector"].items() <= template["metadata"]["labels"].items():
                continue
            ports = {port["name"] for c in template["spec"]["containers"] for port in c.get("ports", [])}
            missing += [
                f"Service/{name}: its pods have no port {port['targetPort']}"
                for port in spec["ports"]
                if port["targetPort"] not in ports
            ]
    for manifest in manifests:
        for backend in _backends(manifest):
            port = backend["port"].get("name") if isinstance(backend["port"], dict) else backend["port"]
            has = [
                known
                for entry in services[backend["name"]]["ports"]
                for known in (entry["name"], entry["port"])
            ]
            if port not in has:
                missing.append(f"{manifest['kind']}: Service/{backend['name']} has no port {port}")
    return missing
