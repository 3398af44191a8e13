"""Fakes of the controllers: how many pods of a workload there are, and how they are replaced."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from tests.helm.fake_kubelet.environment import ManifestError, Object
from tests.helm.fake_kubelet.pod import Pod

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


class Pods(Protocol):
    """What controllers need of the cluster."""

    def create(
        self, workload: Object, template: Object, labels: dict[str, str], name: str | None = None
    ) -> Pod: ...
    def delete(self, pod: Pod) -> None: ...
    def cost(self, pod: Pod) -> int: ...


class Deployment:
    """Rolls as a Deployment does: pods that leave are counted no more, new ones come within maxSurge, old
    ones go within maxUnavailable."""

    def __init__(self, manifest: Object, pods: Pods) -> None:
        self.name: str = manifest["metadata"]["name"]
        self.pods: list[Pod] = []  # those that are not leaving
        self._pods = pods
        self._manifest = manifest

    def update(self, manifest: Object) -> None:
        self._manifest = manifest

    @property
    def replicas(self) -> int:
        return int(self._manifest["spec"].get("replicas", 1))

    @property
    def done(self) -> bool:
        """As `kubectl rollout status` says it: all pods are new and available."""
        return len(self.pods) == self.replicas and all(
            self._is_new(pod) and self._available(pod) for pod in self.pods
        )

    def reconcile(self) -> None:
        """One look. To be called whenever a pod has changed, and now and then."""
        self.pods = [pod for pod in self.pods if not pod.leaving]
        surge, unavailable = self._strategy()
        old = [pod for pod in self.pods if not self._is_new(pod)]
        new = [pod for pod in self.pods if self._is_new(pod)]
        if len(new) > self.replicas:
            self._remove(first_to_go(new, self._pods.cost)[: len(new) - self.replicas])
        room = self.replicas + surge - len(self.pods)
        for _ in range(min(room, self.replicas - len(new))):
            labels = {"pod-template-hash": self._hash}
            self.pods.append(self._pods.create(self._manifest, self._template, labels))
        available = sum(map(self._available, self.pods))
        spare = available - (self.replicas - unavailable)
        for pod in first_to_go(old, self._pods.cost):
            if self._available(pod):
                if spare <= 0:
                    continue
                spare -= 1
            self._remove([pod])

    def _remove(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.pods.remove(pod)
            self._pods.delete(pod)

    @property
    def _template(self) -> Object:
        template: Object = self._manifest["spec"]["template"]
        return template

    @property
    def _hash(self) -> str:
        return hashlib.sha256(json.dumps(self._template, sort_keys=True).encode()).hexdigest()[:10]

    def _is_new(self, pod: Pod) -> bool:
        return pod.labels["pod-template-hash"] == self._hash

    def _available(self, pod: Pod) -> bool:
        least_s = self._manifest["spec"].get("minReadySeconds", 0)
        return pod.ready and (not least_s or time.monotonic() - pod.at("ready") >= least_s)

    def _strategy(self) -> tuple[int, int]:
        strategy = self._manifest["spec"].get("strategy", {})
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return 0, self.replicas
        rolling = strategy.get("rollingUpdate", {})
        surge = _of(rolling.get("maxSurge", "25%"), self.replicas, math.ceil)
        unavailable = _of(rolling.get("maxUnavailable", "25%"), self.replicas, math.floor)
        return surge, unavailable or (0 if surge else 1)


def first_to_go(pods: list[Pod], cost: Callable[[Pod], int]) -> list[Pod]:
    """As a ReplicaSet sorts them for a scale-down: unready ones, cheap ones, young ones first."""
    return sorted(pods, key=lambda pod: (pod.ready, cost(pod), -pod.created_at))


def _of(value: int | str, replicas: int, rounded: Callable[[float], int]) -> int:
    return rounded(int(value.rstrip("%")) * replicas / 100) if isinstance(value, str) else value


class StatefulSet:
    """One pod after the other, by number; the last one is replaced first."""

    def __init__(self, manifest: Object, pods: Pods) -> None:
        self.name: str = manifest["metadata"]["name"]
        self.pods: list[Pod] = []
        self._pods = pods
        self._manifest = manifest
        if manifest["spec"].get("podManagementPolicy", "OrderedReady") not in ("OrderedReady", "Parallel"):
            raise ManifestError(f"StatefulSet {self.name}: unknown podManagementPolicy")

    def update(self, manifest: Object) -> None:
        self._manifest = manifest

    @property
    def done(self) -> bool:
        return len(self.pods) == self._replicas and all(pod.ready and self._is_new(pod) for pod in self.pods)

    @property
    def _replicas(self) -> int:
        return int(self._manifest["spec"].get("replicas", 1))

    def reconcile(self) -> None:
        if any(pod.leaving and not _gone(pod) for pod in self.pods):
            return  # the name is still taken
        self.pods = [pod for pod in self.pods if not pod.leaving]
        for pod in reversed(self.pods):
            if not self._is_new(pod):
                self._pods.delete(pod)
                return
        if all(pod.ready for pod in self.pods) and len(self.pods) < self._replicas:
            name = f"{self.name}-{len(self.pods)}"
            labels = {"controller-revision-hash": self._hash, "statefulset.kubernetes.io/pod-name": name}
            self.pods.append(
                self._pods.create(self._manifest, self._manifest["spec"]["template"], labels, name)
            )

    @property
    def _hash(self) -> str:
        template = json.dumps(self._manifest["spec"]["template"], sort_keys=True)
        return f"{self.name}-{hashlib.sha256(template.encode()).hexdigest()[:10]}"

    def _is_new(self, pod: Pod) -> bool:
        return pod.labels["controller-revision-hash"] == self._hash


def _gone(pod: Pod) -> bool:
    return any(event.what == "gone" for event in pod.events)


class Job:
    """One pod, until it has succeeded."""

    def __init__(self, manifest: Object, pods: Pods) -> None:
        self.name: str = manifest["metadata"]["name"]
        self.pods: list[Pod] = []
        self._pods = pods
        self._manifest = manifest

    def update(self, manifest: Object) -> None: ...

    @property
    def done(self) -> bool:
        return any(pod.phase == "Succeeded" for pod in self.pods)

    def reconcile(self) -> None:
        most = self._manifest["spec"].get("backoffLimit", 6)
        if all(pod.phase == "Failed" for pod in self.pods) and len(self.pods) <= most:
            self.pods.append(self._pods.create(self._manifest, self._manifest["spec"]["template"], {}))


Workload = Deployment | StatefulSet | Job
KINDS: dict[str, type[Deployment] | type[StatefulSet] | type[Job]] = {
    "Deployment": Deployment,
    "StatefulSet": StatefulSet,
    "Job": Job,
}


async def until(condition: Callable[[], bool], within_s: float) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True
