"""The Helm client lifecycle: real Helm 4, Helm 3 and kubectl with the real charts, on a fake Kubernetes API.

It shows what these clients do with the charts, as far as an API goes: nothing is run, pulled or scheduled,
and that things are ready is made up (fake_kube_api/fabricated.py).
"""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helm.conftest import CHARTS, HELMS, OPENED
from tests.helm.release import NAME, NAMESPACE, Release, ToolError, release

SETTING = ("--set", "dllm-stack.config.queue.max_waiting_jobs=77")
EVERYTHING = Path(__file__).parent / "everything.yaml"
STAYS = {("PersistentVolumeClaim", "data-x-redis-0")}  # the queue's; of a StatefulSet nobody deletes claims


@pytest.fixture(params=HELMS)
def stack(request: pytest.FixtureRequest) -> Iterator[Release]:
    """A release of the chart cpu-dev, installed, by each Helm."""
    with release(request.param, "cpu-dev") as made:
        made.install()
        yield made


def test_an_install_upgrades_and_a_rollback_change_what_they_should_and_nothing_else(stack: Release) -> None:
    """Least of all Redis, whose password is made at random."""
    named = {(item["kind"], item["metadata"]["name"]) for item in stack.manifest()}
    assert named <= stack.everything()
    rows = [line.split() for line in stack.kubectl("get", "deployments", "--no-headers").splitlines()]
    ready = {(row[0], row[1]) for row in rows}
    assert ready == {("x-gateway", "1/1"), ("x-router", "1/1"), ("x-worker-demo", "1/1")}
    deployments, settings = stack.objects("Deployment"), stack.objects("ConfigMap")["x-settings"]["data"]
    before, password = _pods(stack), _password(stack)
    assert len(base64.b64decode(password)) >= 32

    stack.upgrade()
    assert _pods(stack) == before

    stack.upgrade(*SETTING, "--set", "dllm-stack.router.replicas=3")
    after = _pods(stack)
    for component in ("gateway", "router", "worker"):
        assert before[component]
        assert not before[component] & after[component]
    assert len(after["router"]) == 3
    assert (after["redis"], _password(stack)) == (before["redis"], password)

    stack.run("rollback", NAME, "1")
    assert stack.history() == [*((number, "superseded") for number in (1, 2, 3)), (4, "deployed")]
    for name, deployment in deployments.items():
        assert stack.spec(name) == deployment["spec"]
    assert stack.objects("ConfigMap")["x-settings"]["data"] == settings
    assert (_pods(stack)["redis"], _password(stack)) == (before["redis"], password)


def test_an_upgrade_opens_no_gateway_that_needs_keys_unless_it_says_so(stack: Release) -> None:
    stack.upgrade("--set", "dllm-stack.keys.mode=redis")
    with pytest.raises(ToolError, match=re.escape(OPENED)):
        stack.upgrade(*SETTING)
    stack.upgrade("--set", "dllm-stack.keys.mode=off")
    stack.upgrade(*SETTING)


def test_what_values_no_longer_say_is_gone_and_what_others_have_added_stays(stack: Release) -> None:
    patch = '{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}'
    stack.kubectl("patch", "deployment", "x-worker-demo", "--patch", patch)
    extra = "dllm-stack.worker.extraEnv[0]"
    stack.upgrade("--set-string", f"{extra}.name=EXTRA,{extra}.value=1")
    assert "EXTRA" in _variables(stack)
    stack.upgrade("--reset-values")
    assert "EXTRA" not in _variables(stack)
    annotations = stack.spec("x-worker-demo")["template"]["metadata"]["annotations"]
    assert annotations["kubectl.kubernetes.io/restartedAt"] == "now"


def test_an_upgrade_that_does_not_come_up_is_taken_back_and_an_uninstall_leaves_the_queues_volume(
    stack: Release,
) -> None:
    images = _images(stack)
    undo = "--rollback-on-failure" if stack.helm == "helm" else "--atomic"
    with pytest.raises(ToolError, match="rolled back"):
        stack.upgrade("--set", "dllm-stack.image.tag=not-there", undo, "--wait", "--timeout", "8s")
    assert [state for _, state in stack.history()] == ["superseded", "failed", "deployed"]
    assert _images(stack) == images
    stack.run("uninstall", NAME)
    assert stack.everything() == STAYS


def test_a_newer_chart_takes_over_and_leaves_redis_running(tmp_path: Path) -> None:
    newer = tmp_path / "cpu-dev"
    shutil.copytree(CHARTS / "cpu-dev", newer)  # its links become files
    for file in (newer / "Chart.yaml", newer / "charts" / "dllm-stack" / "Chart.yaml"):
        file.write_text(file.read_text().replace("0.1.0", "0.2.0"))
    with release("helm", "cpu-dev") as made:
        made.install()
        before = _pods(made)
        made.run("upgrade", NAME, str(newer))
        after = _pods(made)
        assert {image.rpartition(":")[2] for image in _images(made).values() if "dllm" in image} == {"0.2.0"}
    for component in ("gateway", "router", "worker"):
        assert not before[component] & after[component]
    assert after["redis"] == before["redis"]


def test_an_install_that_does_not_come_up_leaves_nothing_but_the_queues_volume() -> None:
    with release("helm", "cpu-dev") as made:
        with pytest.raises(ToolError, match="not ready"):
            made.install(
                *("--set", "dllm-stack.image.tag=not-there"),
                *("--rollback-on-failure", "--wait", "--timeout", "5s"),
            )
        assert made.everything() == STAYS


def test_the_test_hook_is_a_pod_whose_end_helm_reports() -> None:
    """Whether a chat streams is not to be seen here: what becomes of the pod is made up."""
    with release("helm", "cpu-dev") as made:
        made.install()
        assert "x-test" not in made.objects("Pod")
        out = made.run("test", NAME, "--logs")
        assert "Phase:          Succeeded" in out
        assert "POD LOGS: x-test" in out
        (container,) = made.objects("Pod")["x-test"]["spec"]["containers"]
        assert {"http://x-gateway:80", "dllm-demo"} <= set(container["command"])
        made.upgrade("--set", "dllm-stack.image.tag=fails")
        with pytest.raises(ToolError, match="x-test failed"):
            made.run("test", NAME)
        # It is kept for its log: helm forgets it, and deletes it only when it makes the next.
        made.run("uninstall", NAME)
        assert made.everything() == {*STAYS, ("Pod", "x-test")}


def test_a_volume_of_weights_is_kept_on_purpose() -> None:
    with release("helm", "h200-8x") as made:
        made.install("--set", "dllm-stack.weights.volume.pvc.size=100Gi")
        jobs = made.objects("Job")
        assert [job["status"]["succeeded"] for job in jobs.values()] == [1]
        made.upgrade("--set", "dllm-stack.weights.volume.pvc.size=100Gi", *SETTING)
        assert made.objects("Job").keys() == jobs.keys()
        made.run("uninstall", NAME)
        assert made.everything() == {*STAYS, ("PersistentVolumeClaim", "x-weights")}


def test_what_autoscalers_have_scaled_stays_scaled_with_all_that_can_be_turned_on() -> None:
    with release("helm", "mi300x-8x") as made:
        made.install("--values", str(EVERYTHING))
        kinds = {kind for kind, _ in made.everything()}
        assert {*("HorizontalPodAutoscaler", "ScaledObject", "Ingress", "HTTPRoute")} <= kinds
        assert {*("PodMonitor", "PrometheusRule", "NetworkPolicy", "PodDisruptionBudget")} <= kinds
        for deployment in ("x-gateway", "x-worker-mini"):
            # As an autoscaler, or KEDA, does.
            made.kubectl("patch", "deployment", deployment, "--type=merge", '--patch={"spec":{"replicas":5}}')
        made.upgrade("--values", str(EVERYTHING), *SETTING)
        assert made.spec("x-gateway")["replicas"] == made.spec("x-worker-mini")["replicas"] == 5


def test_helm_4_goes_on_with_a_release_of_helm_3() -> None:
    with release("helm3", "cpu-dev") as made:
        made.install()
        made.upgrade(*SETTING)
        password = _password(made)
        made.helm = "helm"
        made.upgrade("--set", "dllm-stack.router.replicas=2")
        assert [state for _, state in made.history()] == ["superseded", "superseded", "deployed"]
        assert made.spec("x-router")["replicas"] == 2
        assert _password(made) == password


def test_what_kubernetes_does_not_know_is_refused_before_anything_is_changed() -> None:
    """What a value hands through as it is, the chart's own schema cannot know."""
    with release("helm", "cpu-dev") as made:
        made.install()
        before = made.spec("x-worker-demo")
        volume = "dllm-stack.worker.extraVolumes[0]"
        with pytest.raises(ToolError, match=r'unknown field "spec\.template\.spec\.volumes\[\d+\]\.hostPth"'):
            made.upgrade("--set", f"{volume}.name=a,{volume}.hostPth.path=/a")
        assert made.spec("x-worker-demo") == before
        assert [state for _, state in made.history()] == ["deployed", "failed"]


def test_kubectl_applies_what_helm_renders_and_finds_no_difference() -> None:
    """For those whose clusters are fed from a repository; the password is theirs then."""
    with release("helm", "cpu-dev") as made:
        made.kubectl("create", "namespace", NAMESPACE)
        secret = "dllm-stack.redis.trial.passwordSecret.name=mine"
        rendered = made.run("template", NAME, str(CHARTS / "cpu-dev"), "--set", secret)
        for _ in range(2):
            done = made.attempt("kubectl", "apply", "--server-side", "--filename", "-", stdin=rendered)
            assert done.status == 0
        versions = {name: item["metadata"]["generation"] for name, item in made.objects("Deployment").items()}
        assert set(versions.values()) == {1}
        found = made.attempt("kubectl", "diff", "--server-side", "--filename", "-", stdin=rendered)
        assert (found.status, found.out) == (0, "")


def _pods(stack: Release) -> dict[str, set[str]]:
    """The uids of each component's pods."""
    return {component: stack.pods(component) for component in ("gateway", "router", "worker", "redis")}


def _password(stack: Release) -> str:
    password: str = stack.objects("Secret")["x-redis"]["data"]["password"]
    return password


def _variables(stack: Release) -> set[str]:
    (container,) = stack.spec("x-worker-demo")["template"]["spec"]["containers"]
    return {variable["name"] for variable in container["env"]}


def _images(stack: Release) -> dict[str, str]:
    return {
        pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"]
        for pod in stack.objects("Pod").values()
    }
