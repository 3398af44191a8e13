"""Which fields an object has, and who owns them: `metadata.managedFields`.

A field is its path: steps of `f:name` through mappings, of `k:{...}` to the item of a list with these keys,
and of `v:...` to an item of a set, as in the API.
"""

from __future__ import annotations

import copy
import json
import time
from dataclasses import dataclass, field
from typing import Any

from tests.helm.fake_kube_api.kinds import Object
from tests.helm.fake_kube_api.schema import Schema

Path = tuple[str, ...]

# What nobody owns: names, and what the server writes.
_NOBODYS = {("f:apiVersion",), ("f:kind",), ("f:metadata",), ("f:status",)}
_NOBODYS_METADATA = (
    *("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "managedFields", "selfLink"),
)
_KEY_DEFAULTS = {"protocol": "TCP"}


@dataclass
class Owner:
    manager: str
    operation: str  # Apply | Update
    fields: set[Path] = field(default_factory=set)


def fields_of(content: Object, schema: Schema) -> dict[Path, Any]:
    """Every field that somebody may own, with its value; {} stands for an item's being in its list."""
    found: dict[Path, Any] = {}
    _collect(content, schema, (), found)
    return {path: value for path, value in found.items() if not _is_nobodys(path)}


def _is_nobodys(path: Path) -> bool:
    if path[0] == "f:metadata" and len(path) > 1:
        return path[1].removeprefix("f:") in _NOBODYS_METADATA
    return path[:1] in _NOBODYS


def _collect(value: Any, schema: Schema, path: Path, found: dict[Path, Any]) -> None:
    if isinstance(value, dict) and value and not schema.is_atomic:
        for name, inner in value.items():
            _collect(inner, schema.field(name), (*path, f"f:{name}"), found)
    elif isinstance(value, list) and schema.keys:
        for item in value:
            place = (*path, item_step(item, schema))
            found[place] = {}
            _collect(item, schema.item, place, found)
    elif isinstance(value, list) and schema.is_set:
        for item in value:
            found[*path, f"v:{_json(item)}"] = item
    else:
        found[path] = value


def item_step(item: Object, schema: Schema) -> str:
    keys = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in schema.keys}
    return "k:" + _json({key: value for key, value in keys.items() if value is not None})


def remove(content: Object, path: Path, schema: Schema) -> None:
    """Takes a field away, and what is empty then."""
    _remove(content, path, schema)


def _remove(value: Any, path: Path, schema: Schema) -> None:
    step, *rest = path
    if isinstance(value, dict) and step.startswith("f:"):
        name = step.removeprefix("f:")
        if name not in value:
            return
        if rest:
            _remove(value[name], tuple(rest), schema.field(name))
        if not rest or value[name] in ({}, []):
            del value[name]
    elif isinstance(value, list) and step.startswith("k:"):
        for item in [item for item in value if item_step(item, schema) == step]:
            if rest:
                _remove(item, tuple(rest), schema.item)
            else:
                value.remove(item)
    elif isinstance(value, list) and step.startswith("v:"):
        value[:] = [item for item in value if f"v:{_json(item)}" != step]


def dotted(path: Path) -> str:
    """As messages name a field: `.spec.ports[port=80].name`."""
    text = ""
    for step in path:
        if step.startswith("k:"):
            keys = json.loads(step.removeprefix("k:"))
            text += "[" + ",".join(f"{key}={_json(value)}" for key, value in keys.items()) + "]"
        elif step.startswith("v:"):
            text += f"[={step.removeprefix('v:')}]"
        else:
            text += f".{step.removeprefix('f:')}"
    return text


def read_owners(content: Object) -> list[Owner]:
    return [
        Owner(entry["manager"], entry["operation"], _unfold(entry.get("fieldsV1", {})))
        for entry in content["metadata"].get("managedFields") or []
    ]


def write_owners(content: Object, owners: list[Owner]) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    content["metadata"]["managedFields"] = [
        {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": content["apiVersion"],
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": _fold(owner.fields),
        }
        for owner in owners
        if owner.fields
    ]


def owner(owners: list[Owner], manager: str, operation: str) -> Owner:
    """The entry of a manager, which is made if there is none."""
    for entry in owners:
        if (entry.manager, entry.operation) == (manager, operation):
            return entry
    owners.append(Owner(manager, operation))
    return owners[-1]


def take_over_changes(
    before: Object | None, after: Object, schema: Schema, manager: str, operation: str = "Update"
) -> None:
    """Who writes a field without applying owns it alone, if that has changed it."""
    old = fields_of(before, schema) if before else {}
    new = fields_of(after, schema)
    changed = {path for path, value in new.items() if path not in old or _json(old[path]) != _json(value)}
    owners = copy.deepcopy(read_owners(after))
    for entry in owners:
        entry.fields = {path for path in entry.fields if path in new} - changed
    owner(owners, manager, operation).fields |= changed
    write_owners(after, owners)


def _fold(paths: set[Path]) -> Object:
    tree: Object = {}
    for path in sorted(paths):
        place = tree
        for step in path:
            place = place.setdefault(step, {})
        if path[-1].startswith("k:"):
            place["."] = {}
    return tree


def _unfold(tree: Object, path: Path = ()) -> set[Path]:
    found: set[Path] = set()
    for step, inner in tree.items():
        if step == ".":
            found.add(path)
        elif inner:
            found |= _unfold(inner, (*path, step))
        else:
            found.add((*path, step))
    return found


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
