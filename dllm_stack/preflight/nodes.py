"""Checks of the nodes: GPUs by product and number, taints, room."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from dllm_stack.preflight.cluster import Cluster, Unreadable
from dllm_stack.preflight.finding import Finding
from dllm_stack.preflight.needs import GPU_LABELS, GPU_RESOURCES, Needs, Object, Workload
from dllm_stack.preflight.placement import Node, place, required_values, selects, untolerated

_ENDED = ("Succeeded", "Failed")
_SHOWN = 4  # names in one line


def check(cluster: Cluster, needs: Needs) -> list[Finding]:
    try:
        nodes = [Node.of(content) for content in cluster.all("/api/v1/nodes")]
    except Unreadable as error:
        advice = "ask whoever may list nodes to run this"
        subjects = ("GPU nodes", "room") if _of_gpus(needs) else ("room",)
        return [Finding(subject, "unknown", str(error), advice) for subject in subjects]
    findings = [finding for workload in _of_gpus(needs) for finding in _gpus(workload, nodes)]
    return [*findings, _room(cluster, needs, nodes)]


def _of_gpus(needs: Needs) -> list[Workload]:
    return [workload for workload in needs.workloads if workload.gpu]


def _gpus(workload: Workload, nodes: list[Node]) -> list[Finding]:
    assert workload.gpu
    resource, _ = workload.gpu
    vendor = next(name for name, other in GPU_RESOURCES.items() if other == resource)
    check = f"GPU nodes for {workload.name}"
    having = [node for node in nodes if node.allocatable.get(resource)]
    chosen = [node for node in having if selects(workload.pod, node)]
    if not chosen:
        return [Finding(check, "missing", *_why_none(workload, vendor, nodes, having))]
    if all(node.obstacle for node in chosen):
        found = ", ".join(sorted({f"{node.name} is {node.obstacle}" for node in chosen}))
        return [Finding(check, "missing", found, "kubectl uncordon, or repair, a node")]
    usable = [node for node in chosen if not node.obstacle]
    label = GPU_LABELS[vendor]
    kinds = Counter(
        f"{node.labels.get(label, 'unnamed')} with {node.allocatable[resource]} GPUs" for node in usable
    )
    found = "; ".join(f"{count} of {kind}" for kind, count in kinds.items())
    shared = [node.name for node in usable if _is_shared(node)]
    if shared:
        advice = "one engine needs a GPU for itself: turn time slicing and MPS off on these nodes"
        return [Finding(check, "missing", f"GPUs are shared on {_some(shared)}", advice)]
    return [Finding(check, "ok", found), *_taints(workload, usable)]


def _why_none(workload: Workload, vendor: str, nodes: list[Node], having: list[Node]) -> tuple[str, str]:
    """What there is instead, and what to do."""
    resource, label = GPU_RESOURCES[vendor], GPU_LABELS[vendor]
    wanted = required_values(workload.pod, label)
    operator = {"nvidia": "NVIDIA's GPU operator", "amd": "AMD's GPU operator"}[vendor]
    if not nodes:
        return "no nodes", "add one that has the GPUs"
    named = [node for node in nodes if node.labels.get(label) in wanted]
    if named:
        sliced = [node for node in named if any("/mig-" in name for name in node.allocatable)]
        if sliced:
            return f"GPUs are split by MIG on {_some(_names(sliced))}", "turn MIG off on these nodes"
        return (
            f"{_some(_names(named))} offers no {resource}",
            f"see why {operator} does not: kubectl describe node {named[0].name}",
        )
    if not having:
        others = [name for name in GPU_RESOURCES.values() if name != resource]
        foreign = [node for node in nodes if any(node.allocatable.get(name) for name in others)]
        if foreign:
            return f"{_some(_names(foreign))} has another vendor's GPUs", "choose a profile of that vendor"
        return f"none of {len(nodes)} nodes offers {resource}", f"add one, and install {operator}"
    products = sorted({node.labels.get(label, "") for node in having})
    if not any(products):
        return (
            f"{_some(_names(having))} has {resource}, but not the label {label}",
            f"let {operator} label nodes, or: --set dllm-stack.products=null",
        )
    return (
        f"GPUs are {_some(product for product in products if product)}, not {' or '.join(wanted)}",
        "choose their profile or, if they are this one's machine: "
        f"--set 'dllm-stack.products={{{next(filter(None, products))}}}'",
    )


def _is_shared(node: Node) -> bool:
    return int(node.labels.get("nvidia.com/gpu.replicas", "1") or 1) > 1


def _taints(workload: Workload, nodes: list[Node]) -> list[Finding]:
    check = f"taints for {workload.name}"
    barred = {node.name: untolerated(workload.pod, node) for node in nodes}
    if any(not taints for taints in barred.values()):
        away = [name for name, taints in barred.items() if taints]
        found = f"all but {_some(away)} let it in" if away else "none in the way"
        return [Finding(check, "ok", found)]
    taints = sorted({_written(taint) for taints in barred.values() for taint in taints})
    fewest = min(barred.values(), key=len)
    tolerations = [{"key": taint["key"], "operator": "Exists", "effect": taint["effect"]} for taint in fewest]
    advice = f"--set-json 'dllm-stack.worker.tolerations={json.dumps(tolerations)}'"
    return [Finding(check, "missing", f"{_some(taints)} keeps it away", advice)]


def _room(cluster: Cluster, needs: Needs, nodes: list[Node]) -> Finding:
    """Whether all pods find a place beside those that are there."""
    check = "room"
    what = "of what nodes have in all; what other pods take is unknown"
    try:
        _take_what_runs(cluster.all("/api/v1/pods"), nodes)
        what = "beside the pods that run"
    except Unreadable:
        pass
    left = place(list(needs.workloads), nodes)
    if not left:
        count = sum(workload.replicas for workload in needs.workloads)
        return Finding(check, "ok", f"for all {count} pods, {what}")
    replicas = {workload.name: workload.replicas for workload in needs.workloads}
    found = "; ".join(
        f"{count} of {replicas[name]} pods of {name} find no place"
        + (f", for want of {', '.join(sorted(lacking))}" if lacking else "")
        for name, (count, lacking) in left.items()
    )
    return Finding(check, "missing", f"{found} ({what})", "add nodes, free some, or install less")


def _take_what_runs(pods: Iterable[Object], nodes: list[Node]) -> None:
    by_name = {node.name: node for node in nodes}
    for pod in pods:
        node = by_name.get(pod["spec"].get("nodeName", ""))
        if node is not None and pod.get("status", {}).get("phase") not in _ENDED:
            node.take(Workload("", 1, pod["spec"]).requests)


def _written(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _names(nodes: Iterable[Node]) -> list[str]:
    return [node.name for node in nodes]


def _some(names: Iterable[str]) -> str:
    all_ = sorted(names)
    more = f" and {len(all_) - _SHOWN} more" if len(all_) > _SHOWN else ""
    return ", ".join(all_[:_SHOWN]) + more
