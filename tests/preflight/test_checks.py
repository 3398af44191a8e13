"""Each check, on a cluster that lacks one thing."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dllm_stack.preflight.needs import Claim, Kind, Needs, Object, of_manifests
from dllm_stack.preflight.pod_security import violations
from tests.helm.fake_kube_api.cluster import FakeCluster
from tests.preflight import clusters
from tests.preflight.clusters import NVIDIA, good, h200, node
from tests.preflight.conftest import Look, needs

GPUS = "GPU nodes for worker-llada2.1-mini"
TAINTS = "taints for worker-llada2.1-mini"
STORAGE = "storage class for data-redis-0"


def _cluster(*objects: Object) -> FakeCluster:
    """Of these, with storage."""
    return FakeCluster(objects=[clusters.storage_class(), *objects])


def test_an_old_kubernetes_is_missing_a_newer_one(look: Look) -> None:
    assert look(good(version="1.28"))["Kubernetes"].state == "missing"
    assert look(good(version="1.29"))["Kubernetes"].state == "ok"


@pytest.mark.parametrize(
    ("there", "found", "advice"),
    [
        ([node("a")], "none of 1 nodes offers nvidia.com/gpu", "NVIDIA's GPU operator"),
        (
            [node("a", {NVIDIA: 8})],
            "a has nvidia.com/gpu, but not the label nvidia.com/gpu.product",
            "products=null",
        ),
        (
            [node("a", {NVIDIA: 8}, {"nvidia.com/gpu.product": "NVIDIA-H200-NVL"})],
            "GPUs are NVIDIA-H200-NVL, not NVIDIA-H200",
            "products={NVIDIA-H200-NVL}",
        ),
        (
            [node("a", {}, {"nvidia.com/gpu.product": "NVIDIA-H200"})],
            "a offers no nvidia.com/gpu",
            "describe node a",
        ),
        (
            [node("a", {"nvidia.com/mig-1g.18gb": 56}, {"nvidia.com/gpu.product": "NVIDIA-H200"})],
            "split by MIG on a",
            "turn MIG off",
        ),
        (
            [
                node(
                    "a",
                    {NVIDIA: 32},
                    {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.replicas": "4"},
                )
            ],
            "GPUs are shared on a",
            "time slicing",
        ),
        ([h200("a", cordoned=True)], "a is cordoned", "uncordon"),
        ([h200("a", ready=False)], "a is not ready", "repair"),
    ],
)
def test_nodes_without_the_profiles_gpus_are_said_with_the_reason(
    look: Look, there: list[Object], found: str, advice: str
) -> None:
    finding = look(_cluster(*there))[GPUS]
    assert finding.state == "missing"
    assert found in finding.found
    assert advice in finding.advice


def test_a_taint_that_the_chart_does_not_tolerate_is_named_with_the_value_that_does(look: Look) -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    kept = h200("a")
    kept["spec"]["taints"].append(taint)
    finding = look(_cluster(kept))[TAINTS]
    assert (finding.state, finding.found) == ("missing", "team=a:NoSchedule keeps it away")
    toleration = '{"key": "team", "operator": "Exists", "effect": "NoSchedule"}'
    assert finding.advice == f"--set-json 'dllm-stack.worker.tolerations=[{toleration}]'"
    finding = look(_cluster(kept, h200("b")))[TAINTS]
    assert (finding.state, finding.found) == ("ok", "all but a let it in")
    soft = {**taint, "effect": "PreferNoSchedule"}
    assert look(_cluster(node("a", {NVIDIA: 8}, kept["metadata"]["labels"], [soft])))[TAINTS].state == "ok"


def test_room_counts_what_runs_and_names_what_there_is_too_little_of(look: Look) -> None:
    other = clusters.pod("other", "gpu-0", {NVIDIA: "3"})
    ended = clusters.pod("ended", "gpu-0", {NVIDIA: "8"}, ended=True)
    finding = look(good(other))["room"]
    assert finding.state == "missing"
    assert finding.found.startswith(
        "3 of 8 pods of worker-llada2.1-mini find no place, for want of nvidia.com/gpu"
    )
    assert look(good(ended))["room"].state == "ok"
    # Two pools need two machines.
    assert look(good(), needs("h200-8x", nodes=2))["room"].state == "missing"
    assert look(good(h200("gpu-1")), needs("h200-8x", nodes=2))["room"].state == "ok"
    # Four GPUs are not two of one node and two of another.
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200"}
    halves = [node(name, {NVIDIA: 2}, labels) for name in ("a", "b", "c", "d")]
    finding = look(_cluster(*halves), needs("h200-8x", "llada2.1-flash"))["room"]
    assert "2 of 2 pods of worker-llada2.1-flash find no place" in finding.found


def test_small_nodes_lack_cpu_or_memory(look: Look) -> None:
    finding = look(_cluster(h200("a", cpu=16), node("b")))["room"]
    assert "for want of cpu" in finding.found
    finding = look(_cluster(h200("a", memory="64Gi"), node("b")))["room"]
    assert "for want of memory" in finding.found
    # The services find no place where only GPUs' pods may go.
    finding = look(_cluster(h200("a")))["room"]
    assert "pods of gateway find no place" in finding.found


def test_without_the_right_to_list_pods_room_is_what_nodes_have(look: Look) -> None:
    cluster = good(clusters.pod("other", "gpu-0", {NVIDIA: "3"}))
    cluster.allows = lambda verb, kind, where: kind.name != "Pod"
    finding = look(cluster)["room"]
    assert finding.state == "ok"
    assert "what other pods take is unknown" in finding.found


def test_storage_needs_a_default_class_or_the_one_that_is_named(look: Look) -> None:
    plain = clusters.storage_class("slow", default=False)
    cluster = FakeCluster(objects=[h200("a"), node("b"), plain])
    finding = look(cluster)[STORAGE]
    assert (finding.state, finding.found) == ("missing", "no default; there is slow")
    named = _claims(Claim("data-redis-0", Decimal(1), "fast", "ReadWriteOnce"))
    assert look(_cluster(h200("a"), node("b")), named)[STORAGE].state == "ok"
    named = _claims(Claim("data-redis-0", Decimal(1), "gold", "ReadWriteOnce"))
    finding = look(_cluster(h200("a"), node("b")), named)[STORAGE]
    assert (finding.state, finding.found) == ("missing", "no gold; there is fast")


def test_a_disk_is_no_volume_for_many_nodes(look: Look) -> None:
    shared = _claims(Claim("x-weights", Decimal(1), None, "ReadWriteMany"))
    finding = look(good(), shared)["storage class for x-weights"]
    assert finding.state == "missing"
    assert "which one node mounts" in finding.found


@pytest.mark.parametrize(
    ("hard", "used", "found"),
    [
        ({"requests.nvidia.com/gpu": "4"}, {}, "leaves 4 of requests.nvidia.com/gpu, 8 are needed"),
        ({"requests.nvidia.com/gpu": "12"}, {"requests.nvidia.com/gpu": "6"}, "leaves 6 of"),
        ({"pods": "10"}, {}, "leaves 10 of pods, 13 are needed"),
        ({"requests.storage": "1Gi"}, {}, "leaves 1Gi of requests.storage, 4Gi are needed"),
        ({"persistentvolumeclaims": "0"}, {}, "of persistentvolumeclaims"),
        ({"fast.storageclass.storage.k8s.io/requests.storage": "100Gi"}, {}, None),
        ({"limits.cpu": "100"}, {}, "pods must say limits.cpu"),
        ({"requests.cpu": "100", "memory": "1000Gi"}, {}, None),
        ({"cpu": "10"}, {}, "leaves 10 of cpu, 35.25 are needed"),
    ],
)
def test_a_quota_must_leave_what_is_needed(
    look: Look, hard: dict[str, str], used: dict[str, str], found: str | None
) -> None:
    finding = look(good(clusters.quota(hard, used)))["quota"]
    if found is None:
        assert finding.state == "ok"
    else:
        assert finding.state == "missing"
        assert found in finding.found


def test_what_a_limit_range_gives_need_not_be_said(look: Look) -> None:
    limits = clusters.limit_range(default={"cpu": "8"})
    assert look(good(clusters.quota({"limits.cpu": "100"}), limits))["quota"].state == "ok"


def test_containers_must_lie_within_a_limit_range(look: Look) -> None:
    finding = look(good(clusters.limit_range(max={"cpu": "2"})))["limit range"]
    assert finding.state == "missing"
    assert "worker of worker-llada2.1-mini takes more cpu than 2" in finding.found
    finding = look(good(clusters.limit_range(min={"memory": "1Gi"})))["limit range"]
    assert "router of router asks for less memory than 1Gi" in finding.found
    assert look(good(clusters.limit_range(max={"cpu": "64"})))["limit range"].state == "ok"


def test_what_the_values_name_must_be_there(look: Look) -> None:
    pod = {
        **_pod(),
        "imagePullSecrets": [{"name": "pull"}],
        "priorityClassName": "high",
        "runtimeClassName": "nvidia",
        "volumes": [
            {"name": "w", "persistentVolumeClaim": {"claimName": "weights"}},
            {"name": "k", "secret": {"secretName": "keys"}},
        ],
    }
    wanted = of_manifests([_deployment(pod), _ingress("nginx")])
    found = look(good(), wanted)
    names = ("pull secret pull", "secret keys", "volume claim weights", "priority class high")
    for check in (*names, "runtime class nvidia", "ingress class nginx"):
        assert found[check].state == "missing"
    there = [
        _named("v1", "Secret", "pull", type="kubernetes.io/dockerconfigjson"),
        _named("v1", "Secret", "keys"),
        _named("v1", "PersistentVolumeClaim", "weights", spec={}),
        _named("scheduling.k8s.io/v1", "PriorityClass", "high"),
        _named("node.k8s.io/v1", "RuntimeClass", "nvidia"),
        _named("networking.k8s.io/v1", "IngressClass", "nginx"),
    ]
    found = look(good(*there), wanted)
    for check in (*names, "runtime class nvidia", "ingress class nginx"):
        assert found[check].state == "ok"
    wrong = _named("v1", "Secret", "pull", type="Opaque")
    assert look(good(wrong), wanted)["pull secret pull"].found == "is of type Opaque"


@pytest.mark.parametrize(
    ("image", "state"),
    [("dllm-stack:1", "missing"), ("team/dllm-stack:1", "missing"), ("reg.example/dllm-stack:1", "ok")],
)
def test_an_image_needs_a_registry_that_has_it(look: Look, image: str, state: str) -> None:
    assert look(good(), of_manifests([_deployment(_pod(image))]))["images"].state == state


def test_a_pod_security_standard_must_take_the_pods(look: Look) -> None:
    label = "pod-security.kubernetes.io/enforce"
    strict = good(clusters.namespace(**{label: "restricted"}))
    assert look(strict)["pod security"].state == "ok"
    for level, state in (("privileged", "ok"), ("baseline", "missing"), ("restricted", "missing")):
        pod = {**_pod(), "volumes": [{"name": "w", "hostPath": {"path": "/w"}}]}
        cluster = good(clusters.namespace(**{label: level}))
        finding = look(cluster, of_manifests([_deployment(pod)]))["pod security"]
        assert finding.state == state
    assert f"kubectl label --overwrite namespace serving {label}=privileged" in finding.advice


def test_baseline_takes_what_restricted_does_not_and_less_than_any() -> None:
    pod: Object = {"containers": [{"name": "a", "image": "i"}], "volumes": [{"name": "v", "nfs": {}}]}
    assert violations(pod, "baseline") == []
    assert len(violations(pod, "restricted")) == 5
    context = {"capabilities": {"add": ["CHOWN", "NET_RAW"]}, "seccompProfile": {"type": "Unconfined"}}
    pod["containers"][0] |= {"securityContext": context, "ports": [{"hostPort": 80}]}
    assert violations(pod, "baseline") == [
        "containers.a: hostPort must not be set",
        "containers.a: seccompProfile.type must be RuntimeDefault or Localhost",
        "containers.a: capabilities.add must not have NET_RAW",
    ]


def test_an_operator_is_missing_only_where_something_needs_it(look: Look) -> None:
    bare = [h200("a"), node("b")]
    assert look(_cluster(*bare))["KEDA"].state == "absent"
    scaled = Needs(workloads=(), claims=(), kinds=frozenset({Kind("keda.sh", "v1alpha1", "ScaledObject")}))
    finding = look(_cluster(*bare), scaled)["KEDA"]
    assert (finding.state, finding.found) == ("missing", "no ScaledObject in keda.sh/v1alpha1")
    assert look(good(), scaled)["KEDA"].state == "ok"


def test_one_missing_right_is_named(look: Look) -> None:
    cluster = good()
    cluster.allows = lambda verb, kind, where: (verb, kind.name) != ("create", "Role")
    finding = look(cluster)["permissions"]
    assert finding.state == "missing"
    assert finding.found == "not allowed in serving: create roles.rbac.authorization.k8s.io"
    # Who may not do to pods what the router may, may not let the router.
    cluster = good()
    cluster.allows = lambda verb, kind, where: (verb, kind.name) != ("watch", "Pod")
    assert look(cluster)["permissions"].found == "not allowed in serving: watch pods"


def _claims(*claims: Claim) -> Needs:
    return Needs(workloads=(), claims=claims, kinds=frozenset())


def _pod(image: str = "reg.example/x:1") -> Object:
    return {"containers": [{"name": "c", "image": image}]}


def _deployment(pod: Object) -> Object:
    return {**_named("apps/v1", "Deployment", "x"), "spec": {"template": {"spec": pod}}}


def _ingress(class_name: str) -> Object:
    return _named("networking.k8s.io/v1", "Ingress", "x", spec={"ingressClassName": class_name})


def _named(api_version: str, kind: str, name: str, **content: object) -> Object:
    metadata = {"name": name, "namespace": clusters.NAMESPACE}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
