"""What a cluster would do with the objects, made up: nothing runs here.

Pods of a Deployment or a StatefulSet are written down and called ready at once, a Job and a lone pod are
called done. An image with the tag `not-there` is called impossible to pull, and one with the tag `fails`
exits with 1: so a client sees a release that never becomes ready, or a test that fails.
"""

from __future__ import annotations

from tests.helm.fake_kube_api import pods
from tests.helm.fake_kube_api.kinds import Object
from tests.helm.fake_kube_api.store import Event, Store
from tests.helm.fake_kube_api.workloads import KINDS, Workloads, set_status


class Fabrication:
    def __init__(self, store: Store) -> None:
        self._store = store
        workloads = Workloads(store)
        self._acts = {
            "Namespace": self._namespace,
            "Deployment": workloads.deployment,
            "ReplicaSet": workloads.replica_set,
            "StatefulSet": workloads.stateful_set,
            "Job": workloads.job,
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
        set_status(self._store, content, {"phase": "Active"})

    def _service(self, content: Object) -> None:
        spec = content["spec"]
        if spec.get("type") != "ExternalName" and "clusterIP" not in spec:
            number = int(content["metadata"]["uid"][:4], 16)
            spec["clusterIP"] = f"10.96.{number // 256}.{number % 256}"
            self._store.put(KINDS["Service"], content)

    def _claim(self, content: Object) -> None:
        set_status(self._store, content, {"phase": "Bound"})

    def _pod(self, content: Object) -> None:
        set_status(self._store, content, pods.status(content["spec"]))
