"""Writes what of the charts is generated."""

from __future__ import annotations

from pathlib import Path

from deploy.charts import golden, schema, table
from deploy.charts.places import PAGE


def main() -> None:
    _write(schema.files())  # Helm refuses what they do not know, so that the renders come after
    _write({PAGE: table.page()} | golden.files())


def _write(files: dict[Path, str]) -> None:
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
