"""What a cluster would do with the objects, made up: nothing runs here.

Pods of a Deployment or a StatefulSet are written down and called ready at once, a Job and a lone pod are
called done. An image with the tag `not-there` is called impossible to pull, and one with the tag `fails`
exits with 1: so a client sees a release that never becomes ready, or a test that fails.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tests.helm.fake_kube_api.kinds import OWN, Kind, Object
from tests.helm.fake_kube_api.store import Event, Store

NOT_THERE = ":not-there"
FAILS = ":fails"

_KINDS: dict[str, Kind] = {kind.name: kind for kind in OWN}
_NOW = "2026-01-01T00:00:00Z"


class Fabrication:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._acts = {
            "Namespace": self._namespace,
            "Deployment": self._deployment,
            "ReplicaSet": self._replica_set,
            "StatefulSet": self._stateful_set,
            "Job": self._job,
            "Pod": self._pod,
            "Service": self._service,
            "PersistentVolumeClaim": self._claim,
        }
        store.on_event.append(self._happened)

    def _happened(self, event: Event) -> None:
        if event.type == "DELETED":
            self._collect_garbage(event)
        elif act := self._acts.get(event.kind.name):
            act(event.content)

    def _collect_garbage(self, event: Event) -> None:
        """What the deleted object owned, or held."""
        uid = event.content["metadata"]["uid"]
        for kind in self._store.kinds:
            for content in self._store.all(kind):
                metadata = content["metadata"]
                owned = any(owner["uid"] == uid for owner in metadata.get("ownerReferences", []))
                held = (
                    event.kind.name == "Namespace"
                    and metadata.get("namespace") == event.content["metadata"]["name"]
                )
                if (owned or held) and self._store.find(kind, metadata.get("namespace"), metadata["name"]):
                    self._store.delete(kind, metadata.get("namespace"), metadata["name"])

    def _namespace(self, content: Object) -> None:
        self._set_status(content, {"phase": "Active"})

    def _service(self, content: Object) -> None:
        spec = content["spec"]
        if spec.get("type") != "ExternalName" and "clusterIP" not in spec:
            number = int(content["metadata"]["uid"][:4], 16)
            spec["clusterIP"] = f"10.96.{number // 256}.{number % 256}"
            self._store.put(_KINDS["Service"], content)

    def _claim(self, content: Object) -> None:
        self._set_status(content, {"phase": "Bound"})

    def _pod(self, content: Object) -> None:
        spec = content["spec"]
        images = [container["image"] for container in spec["containers"]]
        phase, state = _fate(images, ends=spec.get("restartPolicy", "Always") != "Always")
        ready = phase == "Running"
        status = {
            "phase": phase,
            "startTime": _NOW,
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "ready": ready,
                    "restartCount": 0,
                    "state": state,
                }
                for container in spec["containers"]
            ],
        }
        self._set_status(content, status)

    def _job(self, content: Object) -> None:
        template = _completed(content["spec"]["template"])
        name = content["metadata"]["name"]
        pod = self._write_pod(content, template, f"{name}-{_hash(template)[:5]}", {"job-name": name})
        if pod["status"]["phase"] != "Succeeded":
            failed = [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]
            status: Object = {"failed": 1, "conditions": failed} if _has_failed(pod) else {"active": 1}
            self._set_status(content, {**status, "startTime": _NOW})
            return
        complete = [{"type": "Complete", "status": "True"}]
        times = {"startTime": _NOW, "completionTime": _NOW}
        self._set_status(content, {"succeeded": 1, "conditions": complete, **times})

    def _deployment(self, content: Object) -> None:
        spec, metadata = content["spec"], content["metadata"]
        replicas = spec.get("replicas", 1)
        template = spec["template"]
        digest = _hash(template)[:10]
        labels = {**template["metadata"]["labels"], "pod-template-hash": digest}
        new = f"{metadata['name']}-{digest}"
        self._scale(content, new, labels, replicas)
        pods = [
            self._write_pod(
                content, template, f"{new}-{index}", labels, owner=self._find("ReplicaSet", content, new)
            )
            for index in range(replicas)
        ]
        ready = sum(_is_ready(pod) for pod in pods)
        others = [
            name
            for name in (other["metadata"]["name"] for other in self._owned("ReplicaSet", content))
            if name != new
        ]
        # A rolling update takes no old pod away for a new one that does not come up.
        for name in others if ready == replicas else []:
            self._scale(content, name, None, 0)
        self._trim(new, replicas, content)
        for name in others if ready == replicas else []:
            self._trim(name, 0, content)
        available = ready == replicas
        self._set_status(
            content,
            {
                "observedGeneration": metadata["generation"],
                "replicas": replicas,
                "updatedReplicas": replicas,
                "readyReplicas": ready,
                "availableReplicas": ready,
                "unavailableReplicas": replicas - ready,
                "conditions": [
                    {"type": "Available", "status": str(available), "reason": "MinimumReplicasAvailable"},
                    {
                        "type": "Progressing",
                        "status": "True",
                        "reason": "NewReplicaSetAvailable" if available else "ReplicaSetUpdated",
                    },
                ],
            },
        )

    def _stateful_set(self, content: Object) -> None:
        spec, metadata = content["spec"], content["metadata"]
        replicas = spec.get("replicas", 1)
        template = spec["template"]
        name = metadata["name"]
        revision = f"{name}-{_hash(template)[:10]}"
        labels = {**template["metadata"]["labels"], "controller-revision-hash": revision}
        pods = []
        for index in range(replicas):
            for claim in spec.get("volumeClaimTemplates", []):
                self._write_claim(content, claim, f"{claim['metadata']['name']}-{name}-{index}")
            pods.append(self._write_pod(content, template, f"{name}-{index}", labels))
        ready = sum(_is_ready(pod) for pod in pods)
        self._trim(name, replicas, content)
        self._set_status(
            content,
            {
                "observedGeneration": metadata["generation"],
                "replicas": replicas,
                "readyReplicas": ready,
                "availableReplicas": ready,
                "currentReplicas": replicas,
                "updatedReplicas": replicas,
                "currentRevision": revision,
                "updateRevision": revision,
            },
        )

    def _replica_set(self, content: Object) -> None:
        replicas = content["spec"]["replicas"]
        ready = 0 if _has_tag(content["spec"]["template"], NOT_THERE) else replicas
        self._set_status(
            content,
            {
                "observedGeneration": content["metadata"]["generation"],
                "replicas": replicas,
                "readyReplicas": ready,
                "availableReplicas": ready,
            },
        )

    def _scale(self, deployment: Object, name: str, labels: dict[str, str] | None, replicas: int) -> None:
        kind = _KINDS["ReplicaSet"]
        namespace = deployment["metadata"]["namespace"]
        content = self._store.find(kind, namespace, name)
        if content is None:
            spec = deployment["spec"]
            template = {**spec["template"], "metadata": {**spec["template"]["metadata"], "labels": labels}}
            content = {
                "apiVersion": kind.api_version,
                "kind": kind.name,
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": labels,
                    "ownerReferences": [_owner(deployment)],
                },
                "spec": {"selector": {"matchLabels": labels}, "template": template},
            }
        content["spec"]["replicas"] = replicas
        self._store.put(kind, content)

    def _write_pod(
        self,
        workload: Object,
        template: Object,
        name: str,
        labels: dict[str, str],
        owner: Object | None = None,
    ) -> Object:
        kind, namespace = _KINDS["Pod"], workload["metadata"]["namespace"]
        metadata = {
            **template.get("metadata", {}),
            "name": name,
            "namespace": namespace,
            "labels": {**template.get("metadata", {}).get("labels", {}), **labels},
            "ownerReferences": [_owner(owner or workload)],
        }
        pod = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": metadata,
            "spec": template["spec"],
        }
        old = self._store.find(kind, namespace, name)
        if (
            old is not None
            and _hash(old["spec"]) == _hash(pod["spec"])
            and (old["metadata"].get("annotations") == metadata.get("annotations"))
        ):
            return old
        if old is not None:  # the next of a StatefulSet takes the name
            self._store.delete(kind, namespace, name)
        self._store.put(kind, pod)
        return self._store.read(kind, namespace, name)

    def _write_claim(self, workload: Object, template: Object, name: str) -> None:
        kind, namespace = _KINDS["PersistentVolumeClaim"], workload["metadata"]["namespace"]
        if self._store.find(kind, namespace, name) is None:
            metadata = {
                "name": name,
                "namespace": namespace,
                "labels": workload["spec"]["selector"].get("matchLabels", {}),
            }
            self._store.put(
                kind,
                {
                    "apiVersion": kind.api_version,
                    "kind": kind.name,
                    "metadata": metadata,
                    "spec": template["spec"],
                },
            )

    def _trim(self, prefix: str, replicas: int, workload: Object) -> None:
        """Takes the pods away that are too many, by their number."""
        kind, namespace = _KINDS["Pod"], workload["metadata"]["namespace"]
        for pod in self._store.all(kind, namespace):
            head, _, number = pod["metadata"]["name"].rpartition("-")
            if head == prefix and number.isdecimal() and int(number) >= replicas:
                self._store.delete(kind, namespace, pod["metadata"]["name"])

    def _owned(self, kind: str, workload: Object) -> list[Object]:
        uid = workload["metadata"]["uid"]
        return [
            content
            for content in self._store.all(_KINDS[kind], workload["metadata"]["namespace"])
            if any(owner["uid"] == uid for owner in content["metadata"].get("ownerReferences", []))
        ]

    def _find(self, kind: str, workload: Object, name: str) -> Object:
        return self._store.read(_KINDS[kind], workload["metadata"]["namespace"], name)

    def _set_status(self, content: Object, status: Object) -> None:
        kind = _KINDS[content["kind"]]
        metadata = content["metadata"]
        newest = self._store.find(kind, metadata.get("namespace"), metadata["name"])
        if newest is not None and newest.get("status") != status:
            self._store.put(kind, {**newest, "status": status})


def _owner(content: Object) -> Object:
    return {
        "apiVersion": content["apiVersion"],
        "kind": content["kind"],
        "name": content["metadata"]["name"],
        "uid": content["metadata"]["uid"],
        "controller": True,
    }


def _completed(template: Object) -> Object:
    """Of a Job: its pods end."""
    spec = template["spec"]
    return {**template, "spec": {**spec, "restartPolicy": spec.get("restartPolicy", "Never")}}


def _fate(images: list[str], *, ends: bool) -> tuple[str, Object]:
    """The phase of a pod, and the state of its containers."""
    if any(image.endswith(NOT_THERE) for image in images):
        return "Pending", {"waiting": {"reason": "ImagePullBackOff"}}
    if any(image.endswith(FAILS) for image in images):
        return "Failed", {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": _NOW}}
    if ends:
        return "Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": _NOW}}
    return "Running", {"running": {"startedAt": _NOW}}


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _has_tag(template: Object, tag: str) -> bool:
    return any(container["image"].endswith(tag) for container in template["spec"]["containers"])


def _is_ready(pod: Object) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def _has_failed(pod: Object) -> bool:
    return bool(pod["status"]["phase"] == "Failed")
