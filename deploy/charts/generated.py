"""All that `make charts` writes."""

from __future__ import annotations

from pathlib import Path

from deploy.charts import schema, table
from deploy.charts.places import PAGE


def files() -> dict[Path, str]:
    """What there should be, by where."""
    return schema.files() | {PAGE: table.page()}
