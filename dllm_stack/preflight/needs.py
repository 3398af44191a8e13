"""What would be installed, as far as a cluster must have something for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kubernetes.utils import parse_quantity

Object = dict[str, Any]
Resources = dict[str, Decimal]
"""Amounts by resource name: cores, bytes, pieces."""

GPU_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
GPU_LABELS = {"nvidia": "nvidia.com/gpu.product", "amd": "amd.com/gpu.product-name"}
"""By which the vendors' operators say what a node's GPUs are."""

_WORKLOADS = ("Deployment", "StatefulSet", "Job")


@dataclass(frozen=True)
class Workload:
    """Pods that are alike.

    Attributes:
        replicas: where these change, the most.
        pod: the spec of one.
    """

    name: str
    replicas: int
    pod: Object

    @property
    def requests(self) -> Resources:
        return _of_pod(self.pod, "requests")

    @property
    def limits(self) -> Resources:
        return _of_pod(self.pod, "limits")

    @property
    def containers(self) -> list[Object]:
        return [*self.pod["containers"], *self.pod.get("initContainers", [])]

    @property
    def gpu(self) -> tuple[str, int] | None:
        """The resource, and how many of it a pod takes."""
        for name in GPU_RESOURCES.values():
            if count := self.requests.get(name):
                return name, int(count)
        return None


@dataclass(frozen=True)
class Claim:
    """A volume to be made.

    Attributes:
        class_name: None: the cluster's default.
    """

    name: str
    size: Decimal
    class_name: str | None
    mode: str


@dataclass(frozen=True)
class Kind:
    """Objects that would be created."""

    group: str
    version: str
    name: str

    @property
    def plural(self) -> str:
        lower = self.name.lower()
        if lower.endswith("y"):
            return f"{lower[:-1]}ies"
        return f"{lower}es" if lower.endswith("s") else f"{lower}s"


@dataclass(frozen=True)
class Needs:
    """
    Attributes:
        given: names of claims that must be there already.
        secrets: names of Secrets that must be there already.
        grants: what the chart's Roles allow, which only who may do it himself may grant: verbs by group and
            resource.
        exact: whether this is what would be installed, or what is by default.
    """

    workloads: tuple[Workload, ...]
    claims: tuple[Claim, ...]
    kinds: frozenset[Kind]
    given: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()
    ingress_classes: frozenset[str] = frozenset()
    grants: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    exact: bool = True


def of_manifests(manifests: Iterable[Object]) -> Needs:
    """Of what `helm template` prints."""
    made = [m for m in manifests if "helm.sh/hook" not in m["metadata"].get("annotations", {})]
    workloads = tuple(_workload(m, made) for m in made if m["kind"] in _WORKLOADS)
    claims = [
        *(_claim(m, m["metadata"]["name"]) for m in made if m["kind"] == "PersistentVolumeClaim"),
        *(
            _claim(template, f"{template['metadata']['name']}-{m['metadata']['name']}-{index}")
            for m in made
            if m["kind"] == "StatefulSet"
            for template in m["spec"].get("volumeClaimTemplates", [])
            for index in range(m["spec"].get("replicas", 1))
        ),
    ]
    own_secrets = {m["metadata"]["name"] for m in made if m["kind"] == "Secret"}
    own_claims = {claim.name for claim in claims}
    ingresses = [m["spec"] for m in made if m["kind"] == "Ingress"]
    return Needs(
        workloads=workloads,
        claims=tuple(claims),
        kinds=frozenset(_kind(m) for m in made),
        given=frozenset(_claims_used(workloads) - own_claims),
        secrets=frozenset(_secrets_used(workloads) - own_secrets),
        ingress_classes=frozenset(
            spec["ingressClassName"] for spec in ingresses if spec.get("ingressClassName")
        ),
        grants=_grants(m for m in made if m["kind"] == "Role"),
    )


def _kind(manifest: Object) -> Kind:
    group, _, version = manifest["apiVersion"].rpartition("/")
    return Kind(group, version, manifest["kind"])


def _workload(manifest: Object, all_: list[Object]) -> Workload:
    spec, name = manifest["spec"], manifest["metadata"]["name"]
    replicas = spec.get("replicas", spec.get("completions"))
    return Workload(name, _most(manifest, all_) if replicas is None else replicas, spec["template"]["spec"])


def _most(manifest: Object, all_: list[Object]) -> int:
    """Of what an autoscaler scales, its maximum."""
    for other in all_:
        spec = other.get("spec") or {}
        target = spec.get("scaleTargetRef") or {}
        if target.get("name") == manifest["metadata"]["name"]:
            return int(spec.get("maxReplicas") or spec.get("maxReplicaCount") or 1)
    return 1


def _claim(content: Object, name: str) -> Claim:
    spec = content["spec"]
    size = parse_quantity(spec["resources"]["requests"]["storage"])
    return Claim(name, size, spec.get("storageClassName"), spec["accessModes"][0])


def _claims_used(workloads: Iterable[Workload]) -> set[str]:
    return {
        volume["persistentVolumeClaim"]["claimName"]
        for workload in workloads
        for volume in workload.pod.get("volumes", [])
        if "persistentVolumeClaim" in volume
    }


def _secrets_used(workloads: Iterable[Workload]) -> set[str]:
    """Less those of `imagePullSecrets`."""
    used = set()
    for workload in workloads:
        for volume in workload.pod.get("volumes", []):
            used.add(volume.get("secret", {}).get("secretName"))
            for source in volume.get("projected", {}).get("sources", []):
                used.add(source.get("secret", {}).get("name"))
        for container in workload.containers:
            for variable in container.get("env", []):
                reference = variable.get("valueFrom", {}).get("secretKeyRef", {})
                used.add(None if reference.get("optional") else reference.get("name"))
    return {name for name in used if name}


def _grants(roles: Iterable[Object]) -> dict[tuple[str, str], frozenset[str]]:
    grants: dict[tuple[str, str], frozenset[str]] = {}
    for role in roles:
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    key = (group, resource)
                    grants[key] = grants.get(key, frozenset()) | frozenset(rule["verbs"])
    return grants


def _of_pod(pod: Object, what: str) -> Resources:
    """As the scheduler counts: containers together, each of those that run before them alone."""
    total: Resources = {}
    for container in pod["containers"]:
        for name, amount in of_container(container, what).items():
            total[name] = total.get(name, Decimal(0)) + amount
    for container in pod.get("initContainers", []):
        for name, amount in of_container(container, what).items():
            total[name] = max(total.get(name, Decimal(0)), amount)
    return total


def of_container(container: Object, what: str) -> Resources:
    """Its requests or limits. What has a limit alone requests as much."""
    given = container.get("resources", {})
    named = {**(given.get("limits") or {}), **(given.get("requests") or {})}
    chosen = named if what == "requests" else given.get("limits") or {}
    return {name: parse_quantity(amount) for name, amount in chosen.items()}
