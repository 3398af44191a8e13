"""Preflight and the charts agree on what would be installed."""

from __future__ import annotations

import pytest
import yaml

from dllm_stack.preflight import defaults
from dllm_stack.preflight.needs import Needs, Object, Workload, of_manifests
from dllm_stack.preflight.rights import asked
from tests.helm.conftest import CHARTS, HELMS, THIN, Render, render
from tests.helm.fake_kube_api.kinds import Kind
from tests.helm.release import NAME, NAMESPACE, release
from tests.preflight import clusters
from tests.preflight.conftest import Command, Look, needs

__all__ = ["render"]

EVERYTHING = CHARTS.parents[1] / "tests" / "helm" / "everything.yaml"


@pytest.mark.parametrize("chart", THIN)
def test_what_a_profile_needs_by_default_is_what_its_chart_renders(chart: str, render: Render) -> None:
    rendered = of_manifests(render(chart))
    assumed = needs(chart, defaults.MODELS.get(chart, defaults.MODEL))
    assert _shape(assumed) == _shape(rendered)
    assert assumed.kinds == rendered.kinds
    assert assumed.grants == rendered.grants
    assert not rendered.secrets
    assert [(claim.size, claim.class_name, claim.mode) for claim in assumed.claims] == [
        (claim.size, claim.class_name, claim.mode) for claim in rendered.claims
    ]


def test_a_pool_of_more_machines_and_of_another_model_too(render: Render) -> None:
    pool = "dllm-stack.pools.mini"
    rendered = of_manifests(
        render(
            "h200-8x",
            f"{pool}.model=llada2.1-flash",
            f"{pool}.nodes=2",
            f"{pool}.revision={'a' * 40}",
        )
    )
    assert _shape(needs("h200-8x", "llada2.1-flash", nodes=2)) == _shape(rendered)


def test_what_scales_counts_with_its_most_and_needs_what_scales_it(look: Look, render: Render) -> None:
    rendered = of_manifests(render("mi300x-8x", values=yaml.safe_load(EVERYTHING.read_text())))
    replicas = {workload.name: workload.replicas for workload in rendered.workloads}
    assert (replicas["x-gateway"], replicas["x-worker-mini"]) == (8, 8)
    found = look(clusters.amd(), rendered)
    missing = {check for check, finding in found.items() if finding.state == "missing"}
    assert missing == {"KEDA", "Prometheus operator", "Gateway API"}
    assert "registry.example" in found["images"].found


def test_rendered_manifests_are_read_as_helm_prints_them(command: Command, render: Render) -> None:
    options = [
        "dllm-stack.image.registry=reg.example",
        "dllm-stack.image.pullSecrets[0]=pull",
        "dllm-stack.weights.volume.pvc.size=100Gi",
        "dllm-stack.worker.runtimeClassName=nvidia",
    ]
    text = yaml.safe_dump_all(render("h200-8x", *options))
    with clusters.good() as cluster:
        status, out = command(cluster, "--manifests", "-", stdin=text)
    assert status == 1
    lines = {line.split("  ")[1].strip() for line in out.splitlines() if line.startswith("missing")}
    assert lines == {"storage class for x-weights", "runtime class nvidia", "pull secret pull"}


@pytest.mark.parametrize("helm", HELMS)
def test_the_permissions_that_are_asked_for_are_enough_for_helm(helm: str, render: Render) -> None:
    rights = set(asked(of_manifests(render("cpu-dev"))))

    def may(verb: str, kind: Kind, namespace: str | None) -> bool:
        return namespace == NAMESPACE and (verb, kind.group, kind.plural) in rights

    with release(helm, "cpu-dev") as made:
        made.kubectl("create", "namespace", NAMESPACE)
        made.cluster.allows = may
        made.run("install", NAME, str(CHARTS / "cpu-dev"))
        made.upgrade("--set", "dllm-stack.router.replicas=2")
        made.run("rollback", NAME, "1")
        made.run("uninstall", NAME)
        assert made.attempt("kubectl", "get", "nodes").status  # and no more is allowed


def _shape(wanted: Needs) -> set[object]:
    """Of every kind of pods how many, what they ask for and where they may go; names aside."""
    return {
        (
            workload.replicas,
            tuple(sorted(workload.requests.items())),
            str(_placing(workload)),
        )
        for workload in wanted.workloads
    }


def _placing(workload: Workload) -> list[Object]:
    pod = workload.pod
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    return [affinity, {"tolerations": pod.get("tolerations") or []}, pod.get("nodeSelector") or {}]
