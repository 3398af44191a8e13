"""Charts as real Helm renders them, Helm 4 and Helm 3."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

CHARTS = Path(__file__).resolve().parents[2] / "deploy" / "helm"
THIN = sorted(path.name for path in CHARTS.iterdir() if (path / "charts").is_dir())
HELMS = ["helm", "helm3"]

Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]


class RenderError(Exception):
    """Helm did not render; the message is what it says on stderr."""


def tool(name: str) -> str:
    """The path of helm, helm3 or kubectl, which requirements/helm.sh puts beside this Python."""
    own = Path(sys.prefix) / "bin" / name
    found = str(own) if own.exists() else shutil.which(name)
    assert found, f"there is no {name}: run requirements/helm.sh"
    return found


@functools.cache
def _rendered(
    chart: str, sets: tuple[str, ...], values: str | None, release: str, kubernetes: str, helm: str
) -> str:
    command = [tool(helm), "template", release, str(CHARTS / chart), "--namespace", "serving"]
    command += ["--kube-version", kubernetes]
    for one in sets:
        command += ["--set", one]
    if values is not None:
        command += ["--values", "-"]
    done = subprocess.run(command, input=values, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise RenderError(done.stderr)
    return done.stdout


@pytest.fixture(scope="session")
def render() -> Render:
    """`render(chart, *sets, values=None, release="x", kubernetes="1.35.0", helm="helm")`: the manifests, in Helm's order.

    `chart` is a folder of deploy/helm; `sets` are as for --set, `values` a mapping as in a values file. In a
    thin chart all lies under `dllm-stack`. Each rendering is done once a session; what it returns is a fresh
    copy.

    Raises:
        RenderError
    """

    def manifests(
        chart: str,
        *sets: str,
        values: dict[str, Any] | None = None,
        release: str = "x",
        kubernetes: str = "1.35.0",
        helm: str = "helm",
    ) -> list[Manifest]:
        given = None if values is None else json.dumps(values)
        text = _rendered(chart, sets, given, release, kubernetes, helm)
        return [manifest for manifest in yaml.load_all(text, Loader=yaml.CSafeLoader) if manifest]

    return manifests


def one(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    """The only one of this kind and name."""
    (found,) = [m for m in manifests if m["kind"] == kind and m["metadata"]["name"] == name]
    return found
