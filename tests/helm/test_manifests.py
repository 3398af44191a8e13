"""What the charts render is what Kubernetes takes: every version of it that they are for, and both Helms.

Here of the matrix a part; all of it is `make show-charts`.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from deploy.charts import matrix, references, validation
from deploy.charts.helm import HELMS, Manifest, run
from deploy.charts.matrix import Case
from deploy.charts.places import BASE, HELM, charts
from tests.helm.conftest import Render, RenderError

PART = [
    case
    for case in matrix.cases()
    if not case.values or case.chart.name == "cpu-dev" or case.name == "h200-8x: everything"
]
FULL = next(case for case in PART if case.name == "h200-8x: everything")


@pytest.fixture(scope="module")
def rendered() -> dict[str, list[Manifest]]:
    return {case.name: case.manifests() for case in PART}


def test_the_oldest_and_the_newest_kubernetes_take_them() -> None:
    assert validation.all_errors(PART, (validation.VERSIONS[0], validation.VERSIONS[-1])) == []


def test_every_kubernetes_takes_all_of_one() -> None:
    assert validation.all_errors([FULL]) == []


def test_the_charts_are_for_the_versions_that_are_checked() -> None:
    for chart in charts():
        about = yaml.safe_load((chart / "Chart.yaml").read_text())
        assert about["kubeVersion"] == f">={validation.VERSIONS[0]}.0-0"


@pytest.mark.parametrize(
    ("manifest", "error"),
    [
        ({"apiVersion": "v1", "kind": "Service", "spec": {"prots": []}}, "prots"),
        ({"apiVersion": "v1", "kind": "Sevice"}, "Sevice"),
        (
            {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "spec": {"minReplicas": 1}},
            "minReplicas",
        ),
        (
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"maxUnavailable": []}},
            "maxUnavailable",
        ),
    ],
)
def test_what_no_kubernetes_takes_is_seen(manifest: dict[str, Any], error: str) -> None:
    (found, *_) = validation.errors({"metadata": {"name": "x"}} | manifest, "1.37")
    assert error in found


def test_an_older_kubernetes_is_refused(render: Render) -> None:
    with pytest.raises(RenderError, match=r"requires kubeVersion: >=1\.29\.0-0"):
        render("cpu-dev", kubernetes="1.28.9")


def test_both_helms_render_the_same(rendered: dict[str, list[Manifest]]) -> None:
    """All but the passwords that each makes."""

    def comparable(manifests: list[Manifest]) -> list[Manifest]:
        return [manifest for manifest in manifests if manifest["kind"] != "Secret"]

    for case in (FULL, Case("cpu-dev", HELM / "cpu-dev", {})):
        assert comparable(case.manifests("helm3")) == comparable(case.manifests("helm")), case.name


@pytest.mark.parametrize("helm", HELMS)
def test_lint_finds_nothing(helm: str) -> None:
    said = run("lint", "--strict", FULL.chart, "--values", "-", helm=helm, values=FULL.given())
    assert "0 chart(s) failed" in said


def test_names_are_one_each_and_short_enough(rendered: dict[str, list[Manifest]]) -> None:
    for case, manifests in rendered.items():
        ids = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]
        assert len(set(ids)) == len(ids), case
        assert [name for _, name in ids if not re.fullmatch(r"[a-z0-9][-a-z0-9.]{0,61}[a-z0-9]", name)] == []


def test_what_manifests_name_of_one_another_is_there() -> None:
    for case in PART:
        assert references.dangling(case.manifests(), case.words()) == [], case.name


@pytest.mark.parametrize(
    ("kind", "name", "change", "seen"),
    [
        (
            "ConfigMap",
            "x-settings",
            {"metadata": {"name": "other"}},
            "Deployment/x-gateway: no ConfigMap/x-settings",
        ),
        ("Role", "x-router", {"metadata": {"name": "other"}}, "RoleBinding/x-router: no Role/x-router"),
        (
            "ServiceAccount",
            "x-router",
            {"metadata": {"name": "other"}},
            "RoleBinding/x-router: no ServiceAccount",
        ),
        (
            "Service",
            "x-gateway",
            {"spec": {"selector": {"a": "b"}, "ports": []}},
            "Service/x-gateway selects no pod",
        ),
        (
            "Service",
            "x-redis",
            {
                "spec": {
                    "selector": {"app.kubernetes.io/component": "redis"},
                    "ports": [{"targetPort": "rdis"}],
                }
            },
            "its pods have no port rdis",
        ),
        (
            "HorizontalPodAutoscaler",
            "x-a",
            {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "x-b"}}},
            "x-b",
        ),
    ],
)
def test_a_name_that_leads_nowhere_is_seen(kind: str, name: str, change: dict[str, Any], seen: str) -> None:
    manifests = Case("h200-8x", HELM / "h200-8x", {}).manifests()
    kept = [m for m in manifests if (m["kind"], m["metadata"]["name"]) != (kind, name)]
    found = references.dangling([*kept, {"kind": kind, "metadata": {"name": name}} | change], set())
    assert any(seen in reference for reference in found), found


def test_everything_is_labelled(rendered: dict[str, list[Manifest]]) -> None:
    wanted = {
        "app.kubernetes.io/name": "dllm-stack",
        "app.kubernetes.io/instance": "x",
        "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": f"dllm-stack-{yaml.safe_load((BASE / 'Chart.yaml').read_text())['version']}",
    }
    for manifests in rendered.values():
        for manifest in manifests:
            assert wanted.items() <= manifest["metadata"]["labels"].items(), manifest["metadata"]["name"]


def test_nothing_that_is_off_is_rendered(rendered: dict[str, list[Manifest]]) -> None:
    """Without their values, nothing asks for an Ingress controller, an operator's CRDs or KEDA."""
    kinds = {manifest["kind"] for manifest in rendered["h200-8x"]}
    assert kinds & {"Ingress", "HTTPRoute", "HorizontalPodAutoscaler"} == set()
    assert kinds & {"PodMonitor", "PrometheusRule", "ScaledObject"} == set()
    assert {
        "Ingress",
        "HTTPRoute",
        "HorizontalPodAutoscaler",
        "PodMonitor",
        "PrometheusRule",
        "ScaledObject",
    } <= {manifest["kind"] for manifest in rendered[FULL.name]}
