"""Plugins of SGLang for one engine, without installing anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write(folder: Path, plugins: Mapping[str, str]) -> Path:
    """A distribution of nothing but entry points, to be put on the engine's path."""
    information = folder / "engine_plugins-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: engine-plugins\nVersion: 1\n")
    entries = [f"{name} = {target}" for name, target in plugins.items()]
    (information / "entry_points.txt").write_text("\n".join(["[sglang.srt.plugins]", *entries, ""]))
    return folder
