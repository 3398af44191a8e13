"""Helm, as the tests and the generator ask it."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

BIN = Path(sys.prefix) / "bin"


class HelmError(Exception):
    """What Helm printed when it refused."""


def run(*arguments: str, helm: str = "helm") -> str:
    """
    Args:
        helm: `helm`, or `helm3`.

    Raises:
        HelmError: it ended with another status than 0.
    """
    done = subprocess.run([BIN / helm, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise HelmError(done.stderr.strip())
    return done.stdout


@cache
def template(
    chart: Path, sets: tuple[str, ...] = (), values: str = "", api: tuple[str, ...] = (), helm: str = "helm"
) -> str:
    """What an installation `dllm` in namespace `serving` would be, as YAML."""
    arguments = ["template", "dllm", str(chart), "--namespace", "serving", "--include-crds"]
    arguments += [word for pair in sets for word in ("--set", pair)]
    arguments += [word for version in api for word in ("--api-versions", version)]
    if not values:
        return run(*arguments, helm=helm)
    done = subprocess.run(
        [BIN / helm, *arguments, "--values", "-"], input=values, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise HelmError(done.stderr.strip())
    return done.stdout


def manifests(text: str) -> list[Manifest]:
    return [manifest for manifest in yaml.load_all(text, Loader=yaml.CSafeLoader) if manifest]
