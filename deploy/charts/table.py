"""The tables of docs/helm.md: each value with its type, its default and what it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from deploy.charts import types, values
from deploy.charts.places import BASE, PAGE

_BEGIN, _END = "<!-- values: made by `make charts` -->", "<!-- end of values -->"


# What has a table of its own, and its definition.
_FURTHER = {"pools.NAME": "pool", "models.NAME": "model", "weights.volume": "weightsVolume"}


class TableError(Exception):
    """docs/helm.md has no place for the tables."""


def page() -> str:
    """docs/helm.md as it should be.

    Raises:
        TableError: the marks between which the tables stand are not there.
    """
    text = PAGE.read_text(encoding="utf-8")
    if text.count(_BEGIN) != 1 or text.count(_END) != 1:
        raise TableError(f"{PAGE}: needs {_BEGIN!r} and {_END!r}, once each")
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    return f"{before}{_BEGIN}\n\n{tables()}\n{_END}{after}"


def tables() -> str:
    read = values.read((BASE / "values.yaml").read_text(encoding="utf-8"))
    whole = _table(
        [value.name, value.type or types.of_default(value.default), _code(value.default), value.text]
        for value in read
    )
    parts = [
        f"### `{title}`\n\n{types.definitions()[name]['description']}\n\n{_fields(types.definitions()[name])}"
        for title, name in _FURTHER.items()
    ]
    return "\n".join([whole, *parts])


def _fields(definition: dict[str, Any]) -> str:
    return _table(_rows(definition, ""))


def _rows(definition: dict[str, Any], above: str) -> Iterator[list[str]]:
    for name, field in definition["properties"].items():
        if field.get("description"):
            default = "" if "default" not in field else _code(field["default"])
            yield [above + name, _kind(field), default, field["description"]]
        else:
            yield from _rows(field, f"{above}{name}.")


def _kind(field: dict[str, Any]) -> str:
    if "enum" in field:
        return " | ".join(field["enum"])
    kind = field["type"]
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _table(rows: Iterable[list[str]]) -> str:
    lines = ["| value | type | default | what it is |", "|---|---|---|---|"]
    for name, type_, default, text in rows:
        cells = [f"`{name}`", f"`{type_}`", default, text]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _code(default: Any) -> str:
    return f"`{json.dumps(default)}`"
