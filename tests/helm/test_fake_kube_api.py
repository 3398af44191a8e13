"""The fake does what the real API does where clients rely on it: with kubectl, which knows the real one."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.helm.fake_kube_api.kinds import Object
from tests.helm.release import NAMESPACE, Release, Result, release


@pytest.fixture(scope="module")
def cluster() -> Iterator[Release]:
    """With kubectl's help only."""
    with release("helm", "cpu-dev") as made:
        made.kubectl("create", "namespace", NAMESPACE)
        yield made


def test_a_field_belongs_to_who_has_applied_it_until_it_is_taken(cluster: Release) -> None:
    assert _apply(cluster, _deployment("owned", replicas=2), "a").status == 0
    refused = _apply(cluster, _deployment("owned", replicas=3), "b")
    assert refused.status == 1
    assert 'conflict with "a": .spec.replicas' in refused.err
    assert _apply(cluster, _deployment("owned", replicas=3), "b", "--force-conflicts").status == 0
    # What an owner no longer says goes, unless it is another's by now.
    assert _apply(cluster, _deployment("owned", labels={"of": "a"}), "a").status == 0
    assert _apply(cluster, _deployment("owned"), "a").status == 0
    content = cluster.objects("Deployment")["owned"]
    assert content["spec"]["replicas"] == 3
    assert "labels" not in content["metadata"]


def test_what_one_applies_is_joined_with_what_others_have_applied(cluster: Release) -> None:
    assert _apply(cluster, _deployment("joined", env={"A": "1", "B": "2"}), "a").status == 0
    assert _apply(cluster, _deployment("joined", env={"C": "3"}), "b").status == 0
    assert _variables(cluster, "joined") == {"A": "1", "B": "2", "C": "3"}
    assert _apply(cluster, _deployment("joined", env={"B": "2"}), "a").status == 0
    assert _variables(cluster, "joined") == {"B": "2", "C": "3"}


def test_what_is_applied_has_no_variable_twice(cluster: Release) -> None:
    """As Helm 4 applies; Helm 3 and `kubectl create` are let pass."""
    content = _deployment("doubled", env={"A": "1"})
    content["spec"]["template"]["spec"]["containers"][0]["env"] *= 2
    refused = _apply(cluster, content, "a")
    assert refused.status == 1
    assert "failed to create typed patch object: .spec.template.spec.containers.env: duplicate" in refused.err


def test_a_strategic_patch_merges_lists_by_key_and_deletes_by_directive(cluster: Release) -> None:
    assert _apply(cluster, _deployment("patched", env={"A": "1", "B": "2"}), "a").status == 0
    env = [{"name": "A", "$patch": "delete"}, {"name": "C", "value": "3"}]
    _patch(cluster, "patched", "strategic", {"containers": [{"name": "c", "env": env}]})
    assert _variables(cluster, "patched") == {"B": "2", "C": "3"}
    env = [{"name": "D", "value": "4"}]
    _patch(cluster, "patched", "merge", {"containers": [{"name": "c", "image": "x:1", "env": env}]})
    assert _variables(cluster, "patched") == {"D": "4"}


def test_unknown_fields_are_refused_or_dropped_with_a_warning(cluster: Release) -> None:
    content = _deployment("unknown")
    content["spec"]["template"]["spec"]["hostNetwrk"] = True
    text = json.dumps(content)
    refused = cluster.attempt("kubectl", "create", "--filename", "-", stdin=text)
    assert refused.status == 1
    assert 'strict decoding error: unknown field "spec.template.spec.hostNetwrk"' in refused.err
    warned = cluster.attempt("kubectl", "create", "--validate=warn", "--filename", "-", stdin=text)
    assert warned.status == 0
    assert 'Warning: unknown field "spec.template.spec.hostNetwrk"' in warned.err
    assert "hostNetwrk" not in cluster.objects("Deployment")["unknown"]["spec"]["template"]["spec"]


def test_what_cannot_be_changed_or_is_wrong_is_refused_by_its_path(cluster: Release) -> None:
    assert _apply(cluster, _deployment("fixed"), "a").status == 0
    patch = {"spec": {"selector": {"matchLabels": {"app": "other"}}}}
    refused = cluster.attempt("kubectl", "patch", "deployment", "fixed", f"--patch={json.dumps(patch)}")
    assert "spec.selector: Invalid value: field is immutable" in refused.err
    refused = _apply(cluster, _deployment("fixed", replicas="two"), "a")
    assert "spec.replicas: 'two' is not of type 'integer'" in refused.err


def test_a_dry_run_changes_nothing_and_a_watch_sees_what_does(cluster: Release) -> None:
    assert _apply(cluster, _deployment("tried"), "a", "--dry-run=server").status == 0
    assert "tried" not in cluster.objects("Deployment")
    assert _apply(cluster, _deployment("tried", replicas=2), "a").status == 0
    assert "successfully rolled out" in cluster.kubectl("rollout", "status", "deployment/tried")
    wide = cluster.kubectl("get", "pods", "--selector=app in (tried)", "--no-headers")
    assert [line.split()[1:3] for line in wide.splitlines()] == [["1/1", "Running"]] * 2
    cluster.kubectl("delete", "deployment", "tried")  # waits until its watch has seen that
    assert not [name for name in cluster.objects("Pod") if name.startswith("tried-")]


def _deployment(
    name: str,
    replicas: object = None,
    labels: dict[str, str] | None = None,
    env: dict[str, str] | None = None,
) -> Object:
    container: Object = {"name": "c", "image": "x:1"}
    if env:
        container["env"] = [{"name": key, "value": value} for key, value in env.items()]
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata | ({"labels": labels} if labels else {}),
        "spec": spec | ({"replicas": replicas} if replicas is not None else {}),
    }


def _apply(cluster: Release, content: Object, manager: str, *options: str) -> Result:
    command = ("apply", "--server-side", f"--field-manager={manager}", *options, "--filename", "-")
    return cluster.attempt("kubectl", *command, stdin=json.dumps(content))


def _patch(cluster: Release, name: str, kind: str, pod: Object) -> None:
    patch = json.dumps({"spec": {"template": {"spec": pod}}})
    cluster.kubectl("patch", "deployment", name, f"--type={kind}", f"--patch={patch}")


def _variables(cluster: Release, name: str) -> dict[str, str]:
    (container,) = cluster.spec(name)["template"]["spec"]["containers"]
    return {variable["name"]: variable["value"] for variable in container["env"]}
