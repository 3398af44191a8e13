"""Links between the pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT


def anchors(text: str) -> set[str]:
    """As GitHub makes them from titles."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_a_title_is_there_once(file: Path) -> None:
    """Or links to the second one would lead to the first."""
    outside_of_code = "".join(file.read_text(encoding="utf-8").split("```")[::2])
    titles = re.findall(r"^#+ (.*)$", outside_of_code, re.MULTILINE)
    assert len({title.lower() for title in titles}) == len(titles)


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_links_lead_somewhere(file: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", file.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), link
