"""values.schema.json of a chart: what a value may be, and that there are no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from deploy.charts import types, values
from deploy.charts.places import BASE, thin_charts

_DRAFT = "http://json-schema.org/draft-07/schema#"  # the newest that both Helms read
_FILE = "values.schema.json"


def of_base() -> dict[str, Any]:
    """
    Raises:
        values.ValuesError, types.UnknownType: the base chart's values.yaml does not say what a value is.
    """
    top = _object()
    for value in values.read((BASE / "values.yaml").read_text(encoding="utf-8")):
        *groups, name = value.path
        place = top
        for group in groups:
            place = place["properties"].setdefault(group, _object())
        place["properties"][name] = _of_value(value)
    pool = top["properties"]["pools"]["additionalProperties"]["properties"]
    pool["worker"] = top["properties"]["worker"] | pool["worker"]
    top["properties"]["global"] = {"type": "object"}  # Helm hands it to every chart
    return {"$schema": _DRAFT} | top


def of_thin(chart: Path) -> dict[str, Any]:
    """The base chart's values under its name, which its own schema looks at, and nothing else."""
    dependencies = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))["dependencies"]
    allowed = {dependency["name"]: {"type": "object"} for dependency in dependencies}
    return {"$schema": _DRAFT} | _object() | {"properties": allowed | {"global": {"type": "object"}}}


def files() -> dict[Path, str]:
    """What there should be, by where."""
    schemas = {BASE: of_base()} | {chart: of_thin(chart) for chart in thin_charts()}
    return {chart / _FILE: json.dumps(schema, indent=1) + "\n" for chart, schema in schemas.items()}


def _object() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _of_value(value: values.Value) -> dict[str, Any]:
    try:
        schema = types.schema(value.type or types.of_default(value.default))
    except types.UnknownType as error:
        raise types.UnknownType(f"line {value.line}: {value.name}: {error}") from None
    return schema | {"description": value.text}
