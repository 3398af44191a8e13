"""Charts as real Helm renders them, Helm 4 and Helm 3."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from deploy.charts.helm import HELMS, Manifest, manifests, template, tool
from deploy.charts.helm import HelmError as RenderError
from deploy.charts.places import HELM as CHARTS
from deploy.charts.places import thin_charts

__all__ = ["CHARTS", "HELMS", "OPENED", "THIN", "Manifest", "Render", "RenderError", "one", "render", "tool"]

THIN = [path.name for path in thin_charts()]
OPENED = (
    "keys.mode is not given, but the gateway that is installed needs API keys, and would be open to "
    "everybody: give it again, as all your values, or set it to off."
)

Render = Callable[..., list[Manifest]]


@pytest.fixture(scope="session")
def render() -> Render:
    """`render(chart, *sets, values=None, release="x", kubernetes="1.35.0", helm="helm")`: the manifests, in
    Helm's order.

    `chart` is a folder of deploy/helm; `sets` are as for --set, `values` a mapping as in a values file. In a
    thin chart all lies under `dllm-stack`. Each rendering is done once a session; what it returns is a fresh
    copy.

    Raises:
        RenderError
    """

    def rendered(
        chart: str,
        *sets: str,
        values: dict[str, Any] | None = None,
        release: str = "x",
        kubernetes: str = "1.35.0",
        helm: str = "helm",
    ) -> list[Manifest]:
        given = None if values is None else json.dumps(values)
        return manifests(template(CHARTS / chart, sets, given, release, kubernetes, helm))

    return rendered


def one(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    """The only one of this kind and name."""
    (found,) = [m for m in manifests if m["kind"] == kind and m["metadata"]["name"] == name]
    return found
