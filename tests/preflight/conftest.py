from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dllm_stack.cli import app
from dllm_stack.preflight.cluster import Cluster
from dllm_stack.preflight.defaults import of_profile
from dllm_stack.preflight.finding import Finding
from dllm_stack.preflight.needs import Needs
from dllm_stack.preflight.report import findings
from tests.helm.fake_kube_api.cluster import FakeCluster
from tests.preflight.clusters import NAMESPACE
from worker.engine.catalog import load_profile

Look = Callable[..., dict[str, Finding]]
Command = Callable[..., tuple[int, str]]


def needs(profile: str = "h200-8x", *models: str, nodes: int = 1) -> Needs:
    return of_profile(load_profile(profile), list(models or ["llada2.1-mini"]), nodes)


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Look]:
    """`look(cluster, needs)`: the findings by check, of a fake cluster that this starts."""
    with contextlib.ExitStack() as stack:

        def found(cluster: FakeCluster, wanted: Needs | None = None) -> dict[str, Finding]:
            stack.enter_context(cluster)
            monkeypatch.setenv("KUBECONFIG", str(cluster.write_kubeconfig(tmp_path, NAMESPACE)))
            all_ = findings(Cluster.connect(None), wanted or needs(), NAMESPACE)
            return {finding.check: finding for finding in all_}

        yield found


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`command(cluster, *arguments)`: the status of `dllm-stack preflight`, and all that it prints."""

    def run(cluster: FakeCluster | None, *arguments: str, stdin: str | None = None) -> tuple[int, str]:
        if cluster is not None:
            monkeypatch.setenv("KUBECONFIG", str(cluster.write_kubeconfig(tmp_path, NAMESPACE)))
        result = CliRunner().invoke(app, ["preflight", *arguments], input=stdin, catch_exceptions=False)
        return result.exit_code, result.output

    return run
