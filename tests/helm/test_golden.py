"""Renders kept in the repository: what a change of the charts changes is seen in its diff."""

from __future__ import annotations

from deploy.charts import golden
from deploy.charts.places import GOLDEN


def test_renders_are_as_kept() -> None:
    wanted = golden.files()
    for path, content in wanted.items():
        assert path.read_text() == content, f"{path.name}: look at what `make charts` changes"
    assert sorted(GOLDEN.iterdir()) == sorted(wanted)
