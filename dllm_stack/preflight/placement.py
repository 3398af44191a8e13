"""Where pods could go: as the scheduler would see it, in so far as the charts make use of it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from kubernetes.utils import parse_quantity

from dllm_stack.preflight.needs import Object, Resources, Workload

_PODS = "pods"


@dataclass
class Node:
    """
    Attributes:
        allocatable: what it has for pods.
        free: of that, what is not taken yet.
        obstacle: why it takes no pod at all; "" if it does.
    """

    name: str
    labels: dict[str, str]
    taints: list[Object]
    allocatable: Resources
    free: Resources
    obstacle: str

    @classmethod
    def of(cls, content: Object) -> Node:
        spec, status = content.get("spec") or {}, content.get("status") or {}
        amounts = {name: parse_quantity(amount) for name, amount in (status.get("allocatable") or {}).items()}
        ready = [entry for entry in status.get("conditions", []) if entry["type"] == "Ready"]
        obstacle = ""
        if spec.get("unschedulable"):
            obstacle = "cordoned"
        elif any(entry["status"] != "True" for entry in ready):
            obstacle = "not ready"
        return cls(
            content["metadata"]["name"],
            content["metadata"].get("labels") or {},
            spec.get("taints") or [],
            amounts,
            dict(amounts),
            obstacle,
        )

    def take(self, requests: Resources) -> None:
        for name, amount in (requests | {_PODS: Decimal(1)}).items():
            self.free[name] = self.free.get(name, Decimal(0)) - amount

    def lacks(self, requests: Resources) -> list[str]:
        """Resources of which too little is free."""
        return [
            name
            for name, amount in (requests | {_PODS: Decimal(1)}).items()
            if amount > self.free.get(name, Decimal(0))
        ]


def selects(pod: Object, node: Node) -> bool:
    """Whether the pod may go there by the node's labels."""
    selector = pod.get("nodeSelector") or {}
    if any(node.labels.get(name) != value for name, value in selector.items()):
        return False
    terms = _required(pod).get("nodeSelectorTerms")
    if terms is None:
        return True
    return any(all(_matches(one, node) for one in term.get("matchExpressions", [])) for term in terms)


def untolerated(pod: Object, node: Node) -> list[Object]:
    """Taints that keep the pod away."""
    tolerations = pod.get("tolerations") or []
    return [
        taint
        for taint in node.taints
        if taint["effect"] != "PreferNoSchedule"
        and not any(_tolerates(toleration, taint) for toleration in tolerations)
    ]


def place(workloads: list[Workload], nodes: list[Node]) -> dict[str, tuple[int, set[str]]]:
    """Puts each pod on the first node that has room for it, and takes that room.

    Returns:
        Of each workload that has pods left: how many, and of which resources there was too little.
    """
    left: dict[str, tuple[int, set[str]]] = {}
    # What needs GPUs can go to few nodes, so it goes first.
    for workload in sorted(workloads, key=lambda one: one.gpu is None):
        requests = workload.requests
        for number in range(workload.replicas):
            candidates = [node for node in nodes if _takes(node, workload.pod)]
            chosen = next((node for node in candidates if not node.lacks(requests)), None)
            if chosen is None:
                lacking = {name for node in candidates for name in node.lacks(requests)}
                left[workload.name] = (workload.replicas - number, lacking)
                break
            chosen.take(requests)
    return left


def _takes(node: Node, pod: Object) -> bool:
    return not node.obstacle and selects(pod, node) and not untolerated(pod, node)


def _required(pod: Object) -> Object:
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}


def required_values(pod: Object, label: str) -> list[str]:
    """The values of a label that the pod asks its node for."""
    found = [
        value
        for term in _required(pod).get("nodeSelectorTerms", [])
        for one in term.get("matchExpressions", [])
        if one["key"] == label and one["operator"] == "In"
        for value in one["values"]
    ]
    selected = (pod.get("nodeSelector") or {}).get(label)
    return [*found, selected] if selected else found


def _matches(expression: Object, node: Node) -> bool:
    value = node.labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(expression["values"][0])
        case _:
            return value is not None and int(value) < int(expression["values"][0])


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") in (None, ""):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("value", "") == taint.get("value", ""))
