"""What the kinds of patches do to an object."""

from __future__ import annotations

import copy
from typing import Any

from tests.helm.fake_kube_api import refusals
from tests.helm.fake_kube_api.fields import (
    dotted,
    fields_of,
    item_step,
    owner,
    read_owners,
    remove,
    write_owners,
)
from tests.helm.fake_kube_api.kinds import Object
from tests.helm.fake_kube_api.schema import Schema, same

_DIRECTIVES = ("$patch", "$retainKeys")


def apply(live: Object | None, wanted: Object, schema: Schema, manager: str, *, force: bool) -> Object:
    """Server-side apply: `wanted` becomes all that this manager says of the object.

    Raises:
        Refusal: another manager has given one of the fields another value; something is in a list twice.
    """
    _refuse_doubles(wanted, schema, "")
    wanted = copy.deepcopy(wanted)
    wanted["metadata"].pop("managedFields", None)
    new = fields_of(wanted, schema)
    result: Object = _join(live or {}, wanted, schema)
    owners = read_owners(live) if live else []
    own = owner(owners, manager, "Apply")
    others = [entry for entry in owners if entry is not own]
    now = fields_of(live, schema) if live else {}
    taken = {
        (path, entry.manager)
        for entry in others
        for path in entry.fields & new.keys()
        if not (path in now and same(now[path], new[path]))
    }
    if taken and not force:
        raise refusals.conflicts(sorted((dotted(path), name) for path, name in taken))
    for entry in others:
        entry.fields -= {path for path, _ in taken}
    kept = set().union(*(entry.fields for entry in others))
    # The outermost first: an item of a list goes before the fields by which it is known.
    for path in sorted(own.fields - new.keys() - kept, key=len):
        if not any(other[: len(path)] == path for other in kept | new.keys()):
            remove(result, path, schema)
    own.fields = set(new)
    write_owners(result, owners)
    return result


def merge(live: Any, patch: Any) -> Any:
    """A JSON merge patch, RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(live) if isinstance(live, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def strategic(live: Any, patch: Any, schema: Schema) -> Any:
    """A strategic merge patch: like a merge patch, but lists that have a merge key are merged by it."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {name: value for name, value in patch.items() if name not in _DIRECTIVES}
    result = dict(live) if isinstance(live, dict) else {}
    if "$retainKeys" in patch:
        result = {name: value for name, value in result.items() if name in patch["$retainKeys"]}
    for name, value in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            name = name.partition("/")[2]
            result[name] = [item for item in result.get(name, []) if item not in value]
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        inner = schema.field(name)
        if value is None:
            result.pop(name, None)
        elif isinstance(value, list) and inner.merge_key is not None:
            order = patch.get(f"$setElementOrder/{name}")
            result[name] = _strategic_list(result.get(name) or [], value, inner, order)
        else:
            result[name] = strategic(result.get(name), value, inner)
    return result


def json_patch(live: Object, operations: list[Object]) -> Object:
    """RFC 6902, without `move` and `copy`.

    Raises:
        Refusal
    """
    result = copy.deepcopy(live)
    for operation in operations:
        *steps, last = (
            step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]
        )
        try:
            place: Any = result
            for step in steps:
                place = place[int(step) if isinstance(place, list) else step]
            _operate(place, last, operation)
        except (KeyError, IndexError, ValueError):
            raise refusals.bad_request(f"the path {operation['path']} is not there") from None
    return result


def _operate(place: Any, last: str, operation: Object) -> None:
    key: Any = last
    if isinstance(place, list):
        key = len(place) if last == "-" else int(last)
    match operation["op"]:
        case "add" if isinstance(place, list):
            place.insert(key, operation["value"])
        case "add" | "replace":
            place[key] = operation["value"]
        case "remove":
            del place[key]
        case "test" if same(place[key], operation["value"]):
            pass
        case other:
            raise refusals.bad_request(f"the operation {other} on {operation['path']} cannot be done")


def _refuse_doubles(wanted: Any, schema: Schema, path: str) -> None:
    if isinstance(wanted, dict) and not schema.is_atomic:
        for name, value in wanted.items():
            _refuse_doubles(value, schema.field(name), f"{path}.{name}")
    if isinstance(wanted, list) and schema.keys:
        steps = [item_step(item, schema) for item in wanted]
        if doubles := [step for step in steps if steps.count(step) > 1]:
            raise refusals.bad_request(f"failed to create typed patch object: {path}: duplicate {doubles[0]}")
        for item in wanted:
            _refuse_doubles(item, schema.item, path)


def _join(live: Any, wanted: Any, schema: Schema) -> Any:
    if isinstance(wanted, dict) and isinstance(live, dict) and not schema.is_atomic:
        result = dict(live)
        for name, value in wanted.items():
            result[name] = _join(live.get(name), value, schema.field(name))
        return result
    if isinstance(wanted, list) and isinstance(live, list) and schema.keys:
        there = {item_step(item, schema): item for item in live}
        for item in wanted:
            step = item_step(item, schema)
            there[step] = _join(there.get(step), item, schema.item)
        return list(there.values())
    if isinstance(wanted, list) and isinstance(live, list) and schema.is_set:
        return [*live, *(item for item in wanted if item not in live)]
    return copy.deepcopy(wanted)


def _strategic_list(live: list[Any], patch: list[Any], schema: Schema, order: list[Any] | None) -> list[Any]:
    key = schema.merge_key
    if not key:
        return [*live, *(item for item in patch if item not in live)]
    if {"$patch": "replace"} in patch:
        return [item for item in patch if item != {"$patch": "replace"}]
    there = {item.get(key): item for item in live}
    for item in patch:
        if item.get("$patch") == "delete":
            there.pop(item[key], None)
        else:
            there[item[key]] = strategic(there.get(item[key]), item, schema.item)
    if order is not None:
        wanted = [item.get(key) for item in order]
        last = len(wanted)
        ranks = {name: wanted.index(name) if name in wanted else last for name in there}
        return [there[name] for name in sorted(there, key=lambda name: ranks[name])]
    return list(there.values())
