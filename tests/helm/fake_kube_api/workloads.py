"""What controllers and kubelets would make of workloads, made up."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tests.helm.fake_kube_api import pods
from tests.helm.fake_kube_api.kinds import OWN, Kind, Object
from tests.helm.fake_kube_api.store import Store

KINDS: dict[str, Kind] = {kind.name: kind for kind in OWN}


class Workloads:
    def __init__(self, store: Store) -> None:
        self._store = store

    def job(self, content: Object) -> None:
        template = _completed(content["spec"]["template"])
        name = content["metadata"]["name"]
        pod = self._write_pod(content, template, f"{name}-{_hash(template)[:5]}", {"job-name": name})
        if pod["status"]["phase"] != "Succeeded":
            failed = [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]
            status: Object = {"failed": 1, "conditions": failed} if pods.has_failed(pod) else {"active": 1}
            set_status(self._store, content, {**status, "startTime": pods.NOW})
            return
        complete = [{"type": "Complete", "status": "True"}]
        times = {"startTime": pods.NOW, "completionTime": pods.NOW}
        set_status(self._store, content, {"succeeded": 1, "conditions": complete, **times})

    def deployment(self, content: Object) -> None:
        spec, metadata = content["spec"], content["metadata"]
        replicas = spec.get("replicas", 1)
        template = spec["template"]
        digest = _hash(template)[:10]
        labels = {**template["metadata"]["labels"], "pod-template-hash": digest}
        new = f"{metadata['name']}-{digest}"
        self._scale(content, new, labels, replicas)
        written = [
            self._write_pod(
                content, template, f"{new}-{index}", labels, owner=self._find("ReplicaSet", content, new)
            )
            for index in range(replicas)
        ]
        ready = sum(pods.is_ready(pod) for pod in written)
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
        set_status(
            self._store,
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

    def stateful_set(self, content: Object) -> None:
        spec, metadata = content["spec"], content["metadata"]
        replicas = spec.get("replicas", 1)
        template = spec["template"]
        name = metadata["name"]
        revision = f"{name}-{_hash(template)[:10]}"
        labels = {**template["metadata"]["labels"], "controller-revision-hash": revision}
        written = []
        for index in range(replicas):
            for claim in spec.get("volumeClaimTemplates", []):
                self._write_claim(content, claim, f"{claim['metadata']['name']}-{name}-{index}")
            written.append(self._write_pod(content, template, f"{name}-{index}", labels))
        ready = sum(pods.is_ready(pod) for pod in written)
        self._trim(name, replicas, content)
        set_status(
            self._store,
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

    def replica_set(self, content: Object) -> None:
        replicas = content["spec"]["replicas"]
        ready = replicas if pods.can_be_pulled(content["spec"]["template"]) else 0
        set_status(
            self._store,
            content,
            {
                "observedGeneration": content["metadata"]["generation"],
                "replicas": replicas,
                "readyReplicas": ready,
                "availableReplicas": ready,
            },
        )

    def _scale(self, deployment: Object, name: str, labels: dict[str, str] | None, replicas: int) -> None:
        kind = KINDS["ReplicaSet"]
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
        kind, namespace = KINDS["Pod"], workload["metadata"]["namespace"]
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
        kind, namespace = KINDS["PersistentVolumeClaim"], workload["metadata"]["namespace"]
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
        kind, namespace = KINDS["Pod"], workload["metadata"]["namespace"]
        for pod in self._store.all(kind, namespace):
            head, _, number = pod["metadata"]["name"].rpartition("-")
            if head == prefix and number.isdecimal() and int(number) >= replicas:
                self._store.delete(kind, namespace, pod["metadata"]["name"])

    def _owned(self, kind: str, workload: Object) -> list[Object]:
        uid = workload["metadata"]["uid"]
        return [
            content
            for content in self._store.all(KINDS[kind], workload["metadata"]["namespace"])
            if any(owner["uid"] == uid for owner in content["metadata"].get("ownerReferences", []))
        ]

    def _find(self, kind: str, workload: Object, name: str) -> Object:
        return self._store.read(KINDS[kind], workload["metadata"]["namespace"], name)


def set_status(store: Store, content: Object, status: Object) -> None:
    kind = KINDS[content["kind"]]
    metadata = content["metadata"]
    newest = store.find(kind, metadata.get("namespace"), metadata["name"])
    if newest is not None and newest.get("status") != status:
        store.put(kind, {**newest, "status": status})


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


def _hash(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
