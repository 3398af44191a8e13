"""pydantic's JSON Schemas without references and with few alternatives, so that Helm's errors can be read."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

_NO_USE = ("title", "$defs")


def schema(model: type[BaseModel]) -> dict[str, Any]:
    """Every field may be left out; unknown ones are refused, as the model does."""
    whole = model.model_json_schema()
    plain: dict[str, Any] = _plain(whole, whole.get("$defs", {}))
    return plain


def _plain(node: Any, known: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(item, known) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _plain(known[node["$ref"].removeprefix("#/$defs/")] | rest, known)
    if "anyOf" in node and (single := _nullable(node)):
        return _plain(single, known)
    kept = {
        key: value for key, value in node.items() if key not in _NO_USE or not isinstance(value, str | dict)
    }
    if "properties" in kept:
        kept = {key: value for key, value in kept.items() if key not in ("required", "properties")} | {
            "properties": {name: _plain(field, known) for name, field in kept["properties"].items()}
        }
        return {key: value if key == "properties" else _plain(value, known) for key, value in kept.items()}
    return {key: _plain(value, known) for key, value in kept.items()}


def _nullable(node: dict[str, Any]) -> dict[str, Any] | None:
    """`X or null` without an alternative, if X is of a simple type."""
    some = [choice for choice in node["anyOf"] if choice != {"type": "null"}]
    if len(some) != 1 or "type" not in some[0]:
        return None
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    nullable: dict[str, Any] = some[0] | {"type": [some[0]["type"], "null"]} | rest
    return nullable
