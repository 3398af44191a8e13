"""The pages of docs/, and the tables and examples in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
Row = Sequence[str]


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def code(value: object) -> str:
    return f"`{value}`"


def table(*rows: Row) -> str:
    """The first row is the header."""
    header, *rest = (f"| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([header, f"|{'---|' * len(rows[0])}", *rest])


def assert_holds(name: str, text: str) -> None:
    assert text in page(name), f"docs/{name} should hold:\n\n{text}\n"


def rows_of(name: str, *header: str) -> list[list[str]]:
    """The rows of every table of a page whose header begins like this."""
    found, inside = [], False
    for line in page(name).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if cells[: len(header)] == list(header):
            inside = True
        elif not cells:
            inside = False
        elif inside and not line.startswith("|---"):
            found.append(cells)
    return found


def assert_begin(name: str, header: Row, expected: Iterable[Row]) -> None:
    """The tables with this header begin their rows like this, and say something in every other cell."""
    rows, wanted = rows_of(name, *header), [list(row) for row in expected]
    assert [row[: len(header)] for row in rows] == wanted, f"docs/{name}:\n\n{table(header, *wanted)}\n"
    assert [row for row in rows if not all(row)] == []


def blocks(name: str, language: str) -> list[str]:
    """The code blocks of a page in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page(name), re.DOTALL | re.MULTILINE)
