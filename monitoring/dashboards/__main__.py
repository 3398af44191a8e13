"""Writes configs/grafana/dashboards."""

from __future__ import annotations

from monitoring.dashboards.all import FOLDER, files


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        (FOLDER / name).write_text(content)


if __name__ == "__main__":
    main()
