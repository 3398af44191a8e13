"""Where the charts are, and what is made of them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HELM = ROOT / "deploy" / "helm"
BASE = HELM / "dllm-stack"
PAGE = ROOT / "docs" / "helm.md"
GOLDEN = ROOT / "tests" / "helm" / "golden"


def thin_charts() -> list[Path]:
    """One for each hardware profile, by name."""
    return sorted(file.parent for file in HELM.glob("*/Chart.yaml") if file.parent != BASE)


def charts() -> list[Path]:
    return [BASE, *thin_charts()]
