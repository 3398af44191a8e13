"""What the API lets nobody change in an object that is there: the fields that charts stumble over."""

from __future__ import annotations

from typing import Any

from tests.helm.fake_kube_api import refusals
from tests.helm.fake_kube_api.kinds import Kind, Object
from tests.helm.fake_kube_api.schema import same

# By kind, paths of fields; of a StatefulSet and a claim, what may be changed is shorter to say.
_FIXED: dict[str, tuple[str, ...]] = {
    "Deployment": ("spec.selector",),
    "ReplicaSet": ("spec.selector",),
    "DaemonSet": ("spec.selector",),
    "Job": ("spec.template", "spec.selector", "spec.completions", "spec.completionMode"),
    "RoleBinding": ("roleRef",),
    "ClusterRoleBinding": ("roleRef",),
    "Secret": ("type",),
    "PriorityClass": ("value",),
    "Pod": ("spec.volumes", "spec.nodeName", "spec.serviceAccountName"),
}
_FREE_IN_SPEC: dict[str, set[str]] = {
    "StatefulSet": {
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    },
    "PersistentVolumeClaim": {"resources", "volumeAttributesClassName"},
}


def check(kind: Kind, old: Object, new: Object) -> None:
    """
    Raises:
        Refusal
    """
    changed = [path for path in _FIXED.get(kind.name, ()) if not same(_at(old, path), _at(new, path))]
    if free := _FREE_IN_SPEC.get(kind.name):
        before, after = old["spec"], new["spec"]
        changed += [
            f"spec.{name}" for name in {*before, *after} - free if not same(before.get(name), after.get(name))
        ]
    if changed:
        causes = [(path, "Invalid value: field is immutable") for path in sorted(changed)]
        raise refusals.invalid(kind, new["metadata"]["name"], causes)


def _at(content: Object, path: str) -> Any:
    value: Any = content
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value
