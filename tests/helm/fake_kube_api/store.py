"""The objects, their versions, and what has happened to them."""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from tests.helm.fake_kube_api import refusals
from tests.helm.fake_kube_api.kinds import Kind, Object


@dataclass(frozen=True)
class Event:
    version: int
    type: str  # ADDED | MODIFIED | DELETED
    kind: Kind
    content: Object


class Store:
    """
    Attributes:
        version: the newest resourceVersion.
        events: all since the beginning: no watch is ever too late.
        on_event: is told of each.
    """

    def __init__(self) -> None:
        self.version = 100
        self.events: list[Event] = []
        self.on_event: list[Callable[[Event], None]] = []
        self._objects: dict[tuple[Kind, str | None, str], Object] = {}

    def find(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        found = self._objects.get((kind, namespace if kind.namespaced else None, name))
        return copy.deepcopy(found)

    def read(self, kind: Kind, namespace: str | None, name: str) -> Object:
        found = self.find(kind, namespace, name)
        if found is None:
            raise refusals.not_found(kind, name)
        return found

    def all(self, kind: Kind, namespace: str | None = None) -> list[Object]:
        """`namespace`: None is all."""
        return [
            copy.deepcopy(content)
            for (other, place, _), content in list(self._objects.items())
            if other == kind and (namespace is None or place == namespace)
        ]

    @property
    def kinds(self) -> list[Kind]:
        """Of which there is any object."""
        return list({kind: None for kind, _, _ in self._objects})

    def stamp(self, content: Object, old: Object | None) -> Object:
        """With the metadata that the server gives an object when it is written; `old`, if it is the same."""
        content = copy.deepcopy(content)
        metadata = content["metadata"]
        before = old["metadata"] if old else {}
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        metadata["uid"] = before.get("uid", str(uuid.uuid4()))
        metadata["creationTimestamp"] = before.get("creationTimestamp", now)
        changed = old is None or _meaning(content) != _meaning(old)
        if "spec" in content:
            metadata["generation"] = before.get("generation", 0) + changed
        metadata["resourceVersion"] = str(self.version + 1)
        if old is not None and _without_version(content) == _without_version(old):
            return copy.deepcopy(old)
        return content

    def put(self, kind: Kind, content: Object) -> Object:
        """Writes an object, unless it is already so. Returns it as it is then."""
        metadata = content["metadata"]
        key = (kind, metadata.get("namespace") if kind.namespaced else None, metadata["name"])
        old = self._objects.get(key)
        content = self.stamp(content, old)
        if content == old:
            return content
        self._objects[key] = content
        self._tell("ADDED" if old is None else "MODIFIED", kind, content)
        return copy.deepcopy(content)

    def delete(self, kind: Kind, namespace: str | None, name: str) -> Object:
        content = self._objects.pop((kind, namespace if kind.namespaced else None, name), None)
        if content is None:
            raise refusals.not_found(kind, name)
        content = copy.deepcopy(content)
        content["metadata"]["resourceVersion"] = str(self.version + 1)
        self._tell("DELETED", kind, content)
        return content

    def _tell(self, type_: str, kind: Kind, content: Object) -> None:
        self.version += 1
        event = Event(self.version, type_, kind, copy.deepcopy(content))
        self.events.append(event)
        for listener in self.on_event:
            listener(event)


def _meaning(content: Object) -> Object:
    return {name: value for name, value in content.items() if name not in ("metadata", "status")}


def _without_version(content: Object) -> Object:
    metadata = {
        name: (
            # Their times say when somebody last wrote, changed or not.
            [{**entry, "time": None} for entry in value] if name == "managedFields" else value
        )
        for name, value in content["metadata"].items()
        if name != "resourceVersion"
    }
    return {**content, "metadata": metadata}
