"""The words for types in the comments of values.yaml, as JSON Schema.

int, int >= 1, number > 0, 1..65535     numbers, with bounds
string, string!, bool, object           `!`: not empty; an object of any keys
trial | external                        one of these words
[string], {string}                      a list; a map
resources                               something of definitions.yaml
int?                                    or null
"""

from __future__ import annotations

import copy
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from deploy.charts import catalogue, settings

Schema = dict[str, Any]

_SIMPLE: dict[str, Schema] = {
    "int": {"type": "integer", "minimum": 0},
    "number": {"type": "number", "minimum": 0},
    "string": {"type": "string"},
    "string!": {"type": "string", "minLength": 1},
    "bool": {"type": "boolean"},
    "object": {"type": "object"},
}
_BOUND = re.compile(r"(?P<type>int|number) (?P<sign>>=|>) (?P<value>\d+(?:\.\d+)?)")
_RANGE = re.compile(r"(?P<least>\d+)\.\.(?P<most>\d+)")
_KEYWORD = {">=": "minimum", ">": "exclusiveMinimum"}


class UnknownType(Exception):
    """A word that stands for no type."""


def schema(words: str) -> Schema:
    """
    Raises:
        UnknownType: it is none.
    """
    if words.endswith("?"):
        return or_null(schema(words[:-1]))
    if words[:1] == "[" and words[-1:] == "]":
        return {"type": "array", "items": schema(words[1:-1])}
    if words[:1] == "{" and words[-1:] == "}":
        return {"type": "object", "additionalProperties": schema(words[1:-1])}
    if " | " in words:
        return {"type": "string", "enum": words.split(" | ")}
    if match := _BOUND.fullmatch(words):
        return _number(match["type"]) | {_KEYWORD[match["sign"]]: yaml.safe_load(match["value"])}
    if match := _RANGE.fullmatch(words):
        return {"type": "integer", "minimum": int(match["least"]), "maximum": int(match["most"])}
    if words in _SIMPLE:
        return dict(_SIMPLE[words])
    if words in definitions():
        return copy.deepcopy(definitions()[words])
    raise UnknownType(f"no type {words!r}")


def of_default(default: Any) -> str:
    """The word for a value that says no type.

    Raises:
        UnknownType: its default does not tell.
    """
    if isinstance(default, bool):
        return "bool"
    if isinstance(default, int):
        return "int"
    if isinstance(default, float):
        return "number"
    if isinstance(default, str):
        return "string"
    raise UnknownType(f"{default!r} does not tell a type: write it into the comment")


def or_null(schema_: Schema) -> Schema:
    if "enum" in schema_:
        return {"enum": [*schema_["enum"], None]}
    return schema_ | {"type": [schema_["type"], "null"]}


@cache
def definitions() -> dict[str, Schema]:
    """By name; those of settings and of the catalog come from the services' own."""
    written: dict[str, Schema] = yaml.safe_load(
        Path(__file__).with_name("definitions.yaml").read_text(encoding="utf-8")
    )
    known = catalogue.definitions() | {"config": settings.schema()}
    return {name: _resolved(entry, written | known) for name, entry in (written | known).items()}


def _resolved(entry: Any, known: dict[str, Schema]) -> Any:
    """With definitions that it names written out."""
    if isinstance(entry, list):
        return [_resolved(item, known) for item in entry]
    if not isinstance(entry, dict):
        return entry
    if "is" in entry:
        rest = {key: value for key, value in entry.items() if key != "is"}
        return _resolved(known[entry["is"]], known) | rest
    return {key: _resolved(value, known) for key, value in entry.items()}


def _number(word: str) -> Schema:
    return {"type": _SIMPLE[word]["type"]}
