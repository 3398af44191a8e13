"""Writes what of the charts is generated."""

from __future__ import annotations

from deploy.charts.generated import files


def main() -> None:
    for path, content in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
