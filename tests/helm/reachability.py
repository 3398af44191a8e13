"""Who reaches which port, as NetworkPolicies say: their rules for incoming connections, evaluated.

https://kubernetes.io/docs/concepts/services-networking/network-policies: a pod that no policy selects is
reached by all, and one that some select by what any of these allows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from deploy.charts.helm import NAMESPACE, Manifest

Labels = dict[str, str]


class Peer(NamedTuple):
    """A pod that connects, or, without labels, somebody outside of the cluster."""

    namespace: str
    labels: Labels


class Target(NamedTuple):
    namespace: str
    labels: Labels
    ports: dict[str, int]


def target(workload: Manifest) -> Target:
    template = workload["spec"]["template"]
    ports = [port for container in template["spec"]["containers"] for port in container.get("ports", [])]
    return Target(
        NAMESPACE, template["metadata"]["labels"], {port["name"]: port["containerPort"] for port in ports}
    )


def reaches(peer: Peer, to: Target, port: int, policies: list[Manifest]) -> bool:
    """
    Args:
        port: its number; also one that the pod does not declare.
    """
    chosen = [policy["spec"] for policy in policies if _selects(policy["spec"]["podSelector"], to.labels)]
    return not chosen or any(
        _has_port(rule, port, to) and _has_peer(rule, peer)
        for spec in chosen
        for rule in spec.get("ingress", [])
    )


def _has_port(rule: dict[str, Any], port: int, to: Target) -> bool:
    return "ports" not in rule or any(
        to.ports.get(entry["port"], entry["port"]) == port for entry in rule["ports"]
    )


def _has_peer(rule: dict[str, Any], peer: Peer) -> bool:
    return "from" not in rule or any(_is(entry, peer) for entry in rule["from"])


def _is(entry: dict[str, Any], peer: Peer) -> bool:
    if not peer.labels:
        return "ipBlock" in entry
    namespace = {"kubernetes.io/metadata.name": peer.namespace}
    if "namespaceSelector" in entry:
        is_there = _selects(entry["namespaceSelector"], namespace)
    else:
        is_there = peer.namespace == NAMESPACE
    return is_there and _selects(entry.get("podSelector", {}), peer.labels)


def _selects(selector: dict[str, Any], labels: Labels) -> bool:
    by_value = selector.get("matchLabels", {}).items() <= labels.items()
    return by_value and all(
        expression["operator"] == "In" and labels.get(expression["key"]) in expression["values"]
        for expression in selector.get("matchExpressions", [])
    )
