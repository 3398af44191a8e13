"""The subcommand `dllm-stack preflight`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer
import yaml
from rich.console import Console

from dllm_stack.preflight import defaults
from dllm_stack.preflight.cluster import Cluster, NoCluster
from dllm_stack.preflight.needs import Needs, of_manifests
from dllm_stack.preflight.report import findings, show
from worker.engine.catalog import CatalogError, load_profile

_UNBOUNDED = 1000  # columns where no terminal limits them


class _Wrong(Exception):
    """The command line; the message says what of it."""


def run(
    profile: str | None,
    models: list[str],
    nodes: int,
    manifests: str | None,
    namespace: str | None,
    context: str | None,
) -> int:
    """The exit status: 0, 1 if something is missing, 2 if the question makes no sense."""
    try:
        needs = _needs(profile, models, nodes, manifests)
        cluster = Cluster.connect(context)
    except (_Wrong, NoCluster) as error:
        typer.echo(str(error), err=True)
        return 2
    found = findings(cluster, needs, namespace or cluster.namespace)
    show(Console(width=None if sys.stdout.isatty() else _UNBOUNDED, highlight=False, markup=False), found)
    return int(any(finding.state == "missing" for finding in found))


def _needs(profile: str | None, models: list[str], nodes: int, manifests: str | None) -> Needs:
    if (profile is None) == (manifests is None):
        raise _Wrong("give a profile, or --manifests with what `helm template` prints")
    if manifests is not None:
        return _read(manifests)
    assert profile is not None
    try:
        machine = load_profile(profile)
    except CatalogError as error:
        raise _Wrong(str(error)) from None
    models = models or [defaults.MODELS.get(machine.name, defaults.MODEL)]
    for model in models:
        if model not in machine.models:
            known = ", ".join(machine.models)
            raise _Wrong(f"the profile {machine.name} has no model {model}: choose {known}")
    return defaults.of_profile(machine, models, nodes)


def _read(path: str) -> Needs:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        documents: Iterable[Any] = list(yaml.safe_load_all(text))
        needs = of_manifests(document for document in documents if document)
    except OSError as error:
        raise _Wrong(f"{path}: {error.strerror}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise _Wrong(f"{path}: {error}") from None
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise _Wrong(f"{path}: no manifests of Kubernetes: {error!r}") from None
    if not needs.workloads:
        raise _Wrong(f"{path}: nothing that runs is in it")
    return needs
