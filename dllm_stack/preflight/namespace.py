"""Checks of the namespace: what it allows, and how much of it."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from kubernetes.utils import parse_quantity

from dllm_stack.preflight.cluster import Cluster, Unreadable
from dllm_stack.preflight.finding import Finding
from dllm_stack.preflight.needs import Needs, Object, Resources, of_container
from dllm_stack.preflight.pod_security import LABEL, violations

_PULL_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")
_COUNTED = {"requests", "limits"}


def check(cluster: Cluster, needs: Needs, namespace: str) -> tuple[list[Finding], bool]:
    """Returns what was found, and whether the namespace is there, as far as one can tell."""
    try:
        content = cluster.read(_path(namespace))
    except Unreadable as error:
        found = Finding(
            "namespace", "unknown", str(error), f"kubectl get namespace {namespace}, by whoever may"
        )
        content = {"metadata": {}}
    else:
        if content is None:
            return [Finding("namespace", "ok", f"{namespace} is free: --create-namespace")], False
        found = Finding("namespace", "ok", f"{namespace} is there")
    rest = [
        *_pod_security(content, needs, namespace),
        _quota(cluster, needs, namespace),
        _limit_ranges(cluster, needs, namespace),
        *_secrets(cluster, needs, namespace),
        *_claims(cluster, needs, namespace),
    ]
    return [found, *rest], True


def _path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}"


def _pod_security(content: Object, needs: Needs, namespace: str) -> list[Finding]:
    check = "pod security"
    level = (content["metadata"].get("labels") or {}).get(LABEL)
    if level is None:
        return []
    if level not in ("baseline", "restricted"):
        return [Finding(check, "ok", f"{level} is enforced, and refuses nothing")]
    if not needs.exact:
        # By default all of them pass `restricted`; a test of the charts says so.
        return [Finding(check, "ok", f"{level} is enforced, and met by default")]
    against = {workload.name: violations(workload.pod, level) for workload in needs.workloads}
    found = "; ".join(f"{name}: {', '.join(words)}" for name, words in against.items() if words)
    if found:
        allow = f"kubectl label --overwrite namespace {namespace} {LABEL}=privileged"
        advice = f"change the values that ask for it, or: {allow}"
        return [Finding(check, "missing", f"{level} refuses {found}", advice)]
    return [Finding(check, "ok", f"{level} is enforced, and met")]


def _quota(cluster: Cluster, needs: Needs, namespace: str) -> Finding:
    check = "quota"
    try:
        quotas = cluster.all(f"{_path(namespace)}/resourcequotas")
        defaults = _defaults(cluster, namespace)
    except Unreadable as error:
        return Finding(check, "unknown", str(error), f"kubectl describe quota -n {namespace}, by whoever may")
    if not quotas:
        return Finding(check, "ok", "none is set")
    over: list[str] = []
    unset: set[str] = set()
    wanted = _wanted(needs)
    for quota in quotas:
        if quota["spec"].get("scopes") or quota["spec"].get("scopeSelector"):
            continue  # of pods of some priority, or those without requests: not of these
        hard = quota.get("status", {}).get("hard") or quota["spec"].get("hard") or {}
        used = quota.get("status", {}).get("used") or {}
        for name, limit in hard.items():
            full = f"requests.{name}" if name in ("cpu", "memory") else name
            left = parse_quantity(limit) - parse_quantity(used.get(name, 0))
            needed = wanted.get(full, Decimal(0))
            if needed > left:
                given = f"{quota['metadata']['name']} leaves {_amount(name, left)} of {name}"
                over.append(f"{given}, {_amount(name, needed)} are needed")
            unset |= _without(needs, full, defaults)
    if over:
        return Finding(check, "missing", "; ".join(over), "ask for more, or install less")
    if unset:
        advice = "set them in the values under `resources`, or a LimitRange with defaults"
        return Finding(check, "missing", f"pods must say {', '.join(sorted(unset))}", advice)
    return Finding(check, "ok", f"{', '.join(quota['metadata']['name'] for quota in quotas)}: enough is left")


def _amount(name: str, amount: Decimal) -> str:
    if name.endswith(("memory", "storage")):
        return f"{(amount / 2**30).normalize():f}Gi"
    return f"{amount.normalize():f}"


def _wanted(needs: Needs) -> Resources:
    """By the names that quotas have for it."""
    total: Resources = {}

    def add(name: str, amount: Decimal) -> None:
        total[name] = total.get(name, Decimal(0)) + amount

    for workload in needs.workloads:
        add("pods", Decimal(workload.replicas))
        add("count/pods", Decimal(workload.replicas))
        for prefix, amounts in (("requests", workload.requests), ("limits", workload.limits)):
            for name, amount in amounts.items():
                add(f"{prefix}.{name}", workload.replicas * amount)
    for claim in needs.claims:
        add("persistentvolumeclaims", Decimal(1))
        add("requests.storage", claim.size)
        if claim.class_name:
            prefix = f"{claim.class_name}.storageclass.storage.k8s.io"
            add(f"{prefix}/persistentvolumeclaims", Decimal(1))
            add(f"{prefix}/requests.storage", claim.size)
    return total


def _without(needs: Needs, name: str, defaults: set[str]) -> set[str]:
    """A quota of CPU or memory refuses pods with a container that does not say its own."""
    what, _, resource = name.partition(".")
    if what not in _COUNTED or resource not in ("cpu", "memory") or name in defaults:
        return set()
    silent = any(
        resource not in of_container(container, what)
        for workload in needs.workloads
        for container in workload.containers
    )
    return {name} if silent else set()


def _defaults(cluster: Cluster, namespace: str) -> set[str]:
    """What containers are given that do not say it, as in `limits.cpu`."""
    given: set[str] = set()
    for limits in _container_limits(cluster, namespace):
        given |= {f"limits.{name}" for name in limits.get("default") or {}}
        given |= {f"requests.{name}" for name in limits.get("defaultRequest") or {}}
    return given


def _container_limits(cluster: Cluster, namespace: str) -> list[Object]:
    ranges = cluster.all(f"{_path(namespace)}/limitranges")
    return [limits for one in ranges for limits in one["spec"]["limits"] if limits["type"] == "Container"]


def _limit_ranges(cluster: Cluster, needs: Needs, namespace: str) -> Finding:
    check = "limit range"
    try:
        all_ = _container_limits(cluster, namespace)
    except Unreadable as error:
        return Finding(
            check, "unknown", str(error), f"kubectl describe limitrange -n {namespace}, by whoever may"
        )
    if not all_:
        return Finding(check, "ok", "none is set for containers")
    broken = {
        f"{container['name']} of {workload.name} {wrong}"
        for workload in needs.workloads
        for container in workload.containers
        for limits in all_
        for wrong in _broken(container, limits)
    }
    if broken:
        advice = "change the values under `resources`, or the LimitRange"
        return Finding(check, "missing", "; ".join(sorted(broken)), advice)
    return Finding(check, "ok", "all containers are within it")


def _broken(container: Object, limits: Object) -> Iterable[str]:
    requests, maxima = of_container(container, "requests"), of_container(container, "limits")
    for name, amount in (limits.get("max") or {}).items():
        # Who says no limit gets the default, which is within.
        if maxima.get(name, requests.get(name, Decimal(0))) > parse_quantity(amount):
            yield f"takes more {name} than {amount}"
    for name, amount in (limits.get("min") or {}).items():
        if name in requests and requests[name] < parse_quantity(amount):
            yield f"asks for less {name} than {amount}"


def _secrets(cluster: Cluster, needs: Needs, namespace: str) -> list[Finding]:
    findings = []
    pulling = {
        entry["name"] for workload in needs.workloads for entry in workload.pod.get("imagePullSecrets", [])
    }
    for name in sorted(pulling | needs.secrets):
        check = f"{'pull secret' if name in pulling else 'secret'} {name}"
        try:
            content = cluster.read(f"{_path(namespace)}/secrets/{name}")
        except Unreadable as error:
            findings.append(
                Finding(
                    check, "unknown", str(error), f"kubectl get secret {name} -n {namespace}, by whoever may"
                )
            )
            continue
        if content is None:
            kind = "docker-registry" if name in pulling else "generic"
            findings.append(
                Finding(
                    check,
                    "missing",
                    "is not there",
                    f"kubectl create secret {kind} {name} -n {namespace} ...",
                )
            )
        elif name in pulling and content.get("type") not in _PULL_TYPES:
            advice = f"kubectl create secret docker-registry {name} -n {namespace} ..."
            findings.append(Finding(check, "missing", f"is of type {content.get('type')}", advice))
        else:
            findings.append(Finding(check, "ok", "is there"))
    return findings


def _claims(cluster: Cluster, needs: Needs, namespace: str) -> list[Finding]:
    findings = []
    for name in sorted(needs.given):
        check = f"volume claim {name}"
        try:
            content = cluster.read(f"{_path(namespace)}/persistentvolumeclaims/{name}")
        except Unreadable as error:
            findings.append(
                Finding(
                    check, "unknown", str(error), f"kubectl get pvc {name} -n {namespace}, by whoever may"
                )
            )
            continue
        if content is None:
            findings.append(Finding(check, "missing", "is not there", "make it, or name another"))
        else:
            phase = content.get("status", {}).get("phase", "Pending")
            # One that waits for its first consumer is Pending until there is one.
            findings.append(Finding(check, "ok", f"is there, {phase}"))
    return findings
