"""What the kinds of one version of Kubernetes are made of: the published schemas, as kubernetes-validate has
them."""

from __future__ import annotations

import functools
import importlib.resources
import json
from typing import Any, Self

from jsonschema import Draft202012Validator

from tests.helm.fake_kube_api.kinds import Kind, Object

_REF = "#/$defs/"


class Schema:
    """Of one value in an object: of a mapping, a list, or what is neither."""

    def __init__(self, node: Object, definitions: Object) -> None:
        while reference := node.get("$ref"):
            # What stands beside the reference, such as a merge key, counts too.
            beside = {key: value for key, value in node.items() if key != "$ref"}
            node = {**definitions[reference.removeprefix(_REF)], **beside}
        self._node = node
        self._definitions = definitions

    @classmethod
    def unknown(cls) -> Self:
        """Of what nothing is known: its mappings merge, its lists are replaced."""
        return cls({}, {})

    def field(self, name: str) -> Schema:
        node = self._node.get("properties", {}).get(name)
        if node is None:
            more = self._node.get("additionalProperties")
            node = more if isinstance(more, dict) else {}
        return Schema(node, self._definitions)

    @property
    def item(self) -> Schema:
        return Schema(self._node.get("items", {}), self._definitions)

    @property
    def is_atomic(self) -> bool:
        """A list or a mapping that has one owner, and is replaced as a whole."""
        return "atomic" in (self._node.get("x-kubernetes-map-type"), self._node.get("x-kubernetes-list-type"))

    @property
    def keys(self) -> tuple[str, ...]:
        """By what items of a list are told apart; none: the list is no list of such."""
        if self._node.get("x-kubernetes-list-type") != "map":
            return ()
        return tuple(self._node["x-kubernetes-list-map-keys"])

    @property
    def is_set(self) -> bool:
        return self._node.get("x-kubernetes-list-type") == "set"

    @property
    def merge_key(self) -> str | None:
        """Of a list that a strategic merge patch merges; "" when its items are no mappings."""
        if "merge" not in self._node.get("x-kubernetes-patch-strategy", "").split(","):
            return None
        key: str = self._node.get("x-kubernetes-patch-merge-key", "")
        return key


class Schemas:
    """
    Attributes:
        definitions: by their OpenAPI name.
    """

    def __init__(self, version: str) -> None:
        """`version`: of Kubernetes, such as 1.35."""
        files = importlib.resources.files("kubernetes_validate")
        file = files / "kubernetes-json-schema" / f"v{version}.0-local-strict" / "_definitions.json"
        self.definitions: Object = json.loads(file.read_text(encoding="utf-8"))["$defs"]
        self._names = {
            (gvk["group"], gvk["version"], gvk["kind"]): name
            for name, definition in self.definitions.items()
            for gvk in definition.get("x-kubernetes-group-version-kind", [])
        }

    def name(self, kind: Kind) -> str | None:
        return self._names.get((kind.group, kind.version, kind.name))

    def of(self, kind: Kind) -> Schema:
        name = self.name(kind)
        return Schema({"$ref": _REF + name}, self.definitions) if name else Schema.unknown()

    def validator(self, kind: Kind) -> Draft202012Validator | None:
        name = self.name(kind)
        if name is None:
            return None
        return Draft202012Validator({"$ref": _REF + name, "$defs": self.definitions})


@functools.cache
def schemas(version: str) -> Schemas:
    return Schemas(version)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: 1 is not True."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
