"""Real Helm, 4 and 3, as the generator and the tests ask it."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

HELMS = ("helm", "helm3")
NAMESPACE = "serving"
KUBERNETES = "1.35.0"


class HelmError(Exception):
    """Helm refused; the message is what it says on stderr."""


def tool(name: str) -> str:
    """The path of helm, helm3 or kubectl, which requirements/helm.sh puts beside this Python."""
    own = Path(sys.prefix) / "bin" / name
    found = str(own) if own.exists() else shutil.which(name)
    assert found, f"there is no {name}: run requirements/helm.sh"
    return found


def run(*arguments: str | Path, helm: str = "helm", values: str | None = None) -> str:
    """
    Args:
        helm: `helm`, which is Helm 4, or `helm3`.
        values: YAML for `--values -`.

    Raises:
        HelmError: it ended with another status than 0.
    """
    command = [tool(helm), *map(str, arguments)]
    done = subprocess.run(command, input=values, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise HelmError(done.stderr)
    return done.stdout


@cache
def template(
    chart: Path,
    sets: tuple[str, ...] = (),
    values: str | None = None,
    release: str = "x",
    kubernetes: str = KUBERNETES,
    helm: str = "helm",
) -> str:
    """What an installation in the namespace `serving` would be.

    Args:
        sets: as for --set.
        kubernetes: the version of the cluster.

    Raises:
        HelmError: it cannot be.
    """
    arguments = ["--namespace", NAMESPACE, "--kube-version", kubernetes]
    arguments += [word for one in sets for word in ("--set", one)]
    if values is not None:
        arguments += ["--values", "-"]
    return run("template", release, chart, *arguments, helm=helm, values=values)


def manifests(text: str) -> list[Manifest]:
    """In Helm's order; the caller's to change."""
    return copy.deepcopy(_read(text))


@cache
def _read(text: str) -> list[Manifest]:
    return [manifest for manifest in yaml.load_all(text, Loader=yaml.CSafeLoader) if manifest]


def pod_of(manifest: Manifest) -> dict[str, Any] | None:
    """The pod's spec that a manifest makes; None: it makes none."""
    spec = manifest.get("spec") or {}
    match manifest["kind"]:
        case "Pod":
            return dict(spec)
        case "CronJob":
            return dict(spec["jobTemplate"]["spec"]["template"]["spec"])
        case "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job":
            return dict(spec["template"]["spec"])
    return None
