"""What `kubectl get` prints: the server writes its tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tests.helm.fake_kube_api.kinds import Kind, Object

Row = Callable[[Object], list[Any]]


def table(kind: Kind, items: list[Object], version: str) -> Object:
    """`items` as rows, with what a client needs to know of each beside."""
    names, row = _COLUMNS.get(kind.name, ([], lambda _: []))
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version},
        "columnDefinitions": [
            {"name": name, "type": "string", "format": "name" if name == "Name" else "", "priority": 0}
            for name in ("Name", *names, "Age")
        ],
        "rows": [
            {
                "cells": [item["metadata"]["name"], *row(item), _age(item)],
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": item["metadata"],
                },
            }
            for item in items
        ],
    }


def _age(item: Object) -> str:
    created = datetime.fromisoformat(item["metadata"]["creationTimestamp"])
    return f"{int((datetime.now(UTC) - created).total_seconds())}s"


def _deployment(item: Object) -> list[Any]:
    status = item.get("status", {})
    ready, wanted = status.get("readyReplicas", 0), item["spec"].get("replicas", 1)
    return [f"{ready}/{wanted}", status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]


def _stateful_set(item: Object) -> list[Any]:
    return [f"{item.get('status', {}).get('readyReplicas', 0)}/{item['spec'].get('replicas', 1)}"]


def _replica_set(item: Object) -> list[Any]:
    status = item.get("status", {})
    return [item["spec"]["replicas"], status.get("replicas", 0), status.get("readyReplicas", 0)]


def _pod(item: Object) -> list[Any]:
    status = item.get("status", {})
    containers = status.get("containerStatuses", [])
    waiting = [container["state"].get("waiting", {}).get("reason") for container in containers]
    terminated = [container["state"].get("terminated", {}).get("reason") for container in containers]
    reason = next(filter(None, [*waiting, *terminated]), status.get("phase", "Pending"))
    ready = sum(container["ready"] for container in containers)
    return [f"{ready}/{len(item['spec']['containers'])}", reason, 0]


def _service(item: Object) -> list[Any]:
    spec = item["spec"]
    ports = ",".join(f"{port['port']}/{port.get('protocol', 'TCP')}" for port in spec.get("ports", []))
    return [spec.get("type", "ClusterIP"), spec.get("clusterIP", "None"), "<none>", ports]


def _job(item: Object) -> list[Any]:
    conditions = {entry["type"] for entry in item.get("status", {}).get("conditions", [])}
    state = "Complete" if "Complete" in conditions else "Failed" if "Failed" in conditions else "Running"
    return [state, f"{item.get('status', {}).get('succeeded', 0)}/{item['spec'].get('completions', 1)}"]


def _node(item: Object) -> list[Any]:
    ready = {entry["type"]: entry["status"] for entry in item.get("status", {}).get("conditions", [])}
    version = item.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", "")
    return ["Ready" if ready.get("Ready", "True") == "True" else "NotReady", version]


_COLUMNS: dict[str, tuple[list[str], Row]] = {
    "Deployment": (["Ready", "Up-to-date", "Available"], _deployment),
    "StatefulSet": (["Ready"], _stateful_set),
    "ReplicaSet": (["Desired", "Current", "Ready"], _replica_set),
    "Pod": (["Ready", "Status", "Restarts"], _pod),
    "Service": (["Type", "Cluster-IP", "External-IP", "Port(s)"], _service),
    "Job": (["Status", "Completions"], _job),
    "Node": (["Status", "Version"], _node),
    "Secret": (["Type", "Data"], lambda item: [item.get("type", "Opaque"), len(item.get("data", {}))]),
    "ConfigMap": (["Data"], lambda item: [len(item.get("data", {})) + len(item.get("binaryData", {}))]),
    "Namespace": (["Status"], lambda item: [item.get("status", {}).get("phase", "Active")]),
    "PersistentVolumeClaim": (["Status"], lambda item: [item.get("status", {}).get("phase", "Pending")]),
}
