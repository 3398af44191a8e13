"""What the charts render, where it matters to whoever runs it."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from dllm_stack import settings
from tests.helm.conftest import HELMS, THIN, Manifest, Render, one
from tests.helm.test_no_drift import defined
from worker.engine import catalog

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GPUS = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
PRODUCTS = {"nvidia": "nvidia.com/gpu.product", "amd": "amd.com/gpu.product-name"}
WORKLOADS = ("Deployment", "StatefulSet", "Job")
FLASH = {"model": "llada2.1-flash", "revision": COMMIT}


def mini(**pool: Any) -> dict[str, Any]:
    """Values of a thin chart whose pool has these, too."""
    return {"dllm-stack": {"pools": {"mini": pool}}}


def pods(manifests: list[Manifest]) -> dict[str, Manifest]:
    """The pod templates, by the name of what makes them."""
    return {m["metadata"]["name"]: m["spec"]["template"] for m in manifests if m["kind"] in WORKLOADS}


def containers(pod: Manifest) -> list[Manifest]:
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def worker(manifests: list[Manifest], pool: str = "mini") -> Manifest:
    spec: Manifest = one(manifests, "Deployment", f"x-worker-{pool}")["spec"]
    return spec


def without_password(manifests: list[Manifest]) -> list[Manifest]:
    stable = copy.deepcopy(manifests)
    one(stable, "Secret", "x-redis").pop("data")
    return stable


@pytest.mark.parametrize("chart", THIN)
def test_each_profile_renders_as_it_is_and_alike_on_both_helms(render: Render, chart: str) -> None:
    with_4, with_3 = (render(chart, helm=helm) for helm in HELMS)
    assert without_password(with_4) == without_password(with_3)
    names = [(m["kind"], m["metadata"]["name"]) for m in with_4]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("chart", THIN)
def test_workers_ask_for_one_vendors_gpus_on_its_machines(render: Render, chart: str) -> None:
    profile = catalog.load_profile(chart)
    manifests = render(chart)
    (pool,) = [name for name in pods(manifests) if "worker" in name]
    spec = pods(manifests)[pool]["spec"]
    resources = spec["containers"][0]["resources"]
    gpus = {name: n for kind in resources.values() for name, n in kind.items() if "gpu" in name}
    if profile.vendor == "cpu":
        assert gpus == {}
        assert "affinity" not in spec
        return
    tp = profile.models["llada2.1-mini"].tp
    assert gpus == {GPUS[profile.vendor]: tp}
    assert one(manifests, "Deployment", pool)["spec"]["replicas"] * tp == profile.gpus
    affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (condition,) = affinity["nodeSelectorTerms"][0]["matchExpressions"]
    assert condition["key"] == PRODUCTS[profile.vendor]
    words = {word for value in condition["values"] for word in value.replace("_", "-").split("-")}
    assert profile.gpu in words
    assert spec["tolerations"][0] == {
        "key": GPUS[profile.vendor],
        "operator": "Exists",
        "effect": "NoSchedule",
    }
    for name, pod in pods(manifests).items():
        assert name == pool or "affinity" not in pod["spec"]


def test_a_flash_takes_more_of_everything(render: Render) -> None:
    small, large = (worker(render("h200-8x", values=values)) for values in (mini(), mini(**FLASH, nodes=2)))
    assert (small["replicas"], large["replicas"]) == (8, 4)
    of_small, of_large = (spec["template"]["spec"] for spec in (small, large))
    assert [gpus(of_small), gpus(of_large)] == [1, 4]
    assert [shm(of_small), shm(of_large)] == ["2Gi", "16Gi"]
    assert budget_s(of_large) > 2 * budget_s(of_small)
    assert large["progressDeadlineSeconds"] > 2 * small["progressDeadlineSeconds"]


def gpus(spec: Manifest) -> int:
    return int(spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])


def shm(spec: Manifest) -> str:
    (volume,) = [v["emptyDir"] for v in spec["volumes"] if v["name"] == "shm"]
    assert volume["medium"] == "Memory"
    assert {"name": "shm", "mountPath": "/dev/shm"} in spec["containers"][0]["volumeMounts"]
    return str(volume["sizeLimit"])


def budget_s(spec: Manifest) -> int:
    probe = spec["containers"][0]["startupProbe"]
    return int(probe["periodSeconds"] * probe["failureThreshold"])


def variables(container: Manifest) -> dict[str, str]:
    """Those with a value, $(NAME) replaced as the kubelet does; a secret's is its key."""
    found: dict[str, str] = {}
    for entry in container["env"]:
        value = entry.get("value") or entry.get("valueFrom", {}).get("secretKeyRef", {}).get("key", "a-pod")
        for name, known in found.items():
            value = value.replace(f"$({name})", known)
        found[entry["name"]] = value
    return found


@pytest.mark.parametrize("model", [{}, FLASH])
@pytest.mark.parametrize("start_timeout_s", [None, 100, 7200])
def test_a_pod_is_not_killed_while_its_engine_may_load(
    render: Render, model: dict[str, str], start_timeout_s: int | None
) -> None:
    config = {"worker": {"start_timeout_s": start_timeout_s}} if start_timeout_s else {}
    values: dict[str, Any] = {"dllm-stack": mini(**model)["dllm-stack"] | {"config": config}}
    spec = worker(render("h200-8x", values=values))
    pod = spec["template"]["spec"]
    given_s = int(variables(pod["containers"][0])["DLLM_WORKER__START_TIMEOUT_S"])
    assert given_s == start_timeout_s or not start_timeout_s
    assert budget_s(pod) > given_s
    assert spec["progressDeadlineSeconds"] > budget_s(pod)
    weights_gb = 205.8 if model else 32.5
    assert start_timeout_s or given_s > weights_gb * 1000 / 200


ALL_ON = {
    "keys": {"mode": "file", "secret": {"name": "my-keys"}},
    "redis": {
        "mode": "external",
        "external": {"secret": {"name": "my-redis"}, "caSecret": {"name": "my-ca"}},
    },
    "weights": {"volume": {"pvc": {"size": "1Ti"}}, "hubSecret": {"name": "my-hub"}},
    "config": {"queue": {"max_waiting_jobs": 500}, "worker": {"stall_s": 120}},
}


@pytest.mark.parametrize("values", [{}, ALL_ON, {"keys": {"mode": "redis"}}], ids=["plain", "all", "keys"])
def test_the_services_take_what_their_containers_are_given(
    render: Render, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    manifests = render("h200-8x", values={"dllm-stack": values})
    file = tmp_path / "settings.yaml"
    file.write_text(one(manifests, "ConfigMap", "x-settings")["data"]["settings.yaml"])
    for pod in pods(manifests).values():
        for container in containers(pod):
            if container["name"] == "redis":
                continue
            for name in [name for name in os.environ if name.startswith("DLLM_")]:
                monkeypatch.delenv(name)
            for name, value in variables(container).items():
                monkeypatch.setenv(name, value.replace("/etc/dllm/settings.yaml", str(file)))
            if container["name"] != "weights":
                monkeypatch.setenv("DLLM_REDIS__URL", "redis://a-host")
            loaded = settings.load()
            assert container["args"][0] in ("gateway", "router", "worker", "fetch")
            assert loaded.log_format == "json"
            if values is ALL_ON:
                assert loaded.queue.max_waiting_jobs == 500
                assert loaded.worker.stall_s == 120


def test_redis_is_reached_by_its_password_or_by_ones_own_url(render: Render) -> None:
    (gateway,) = pods(render("h200-8x"))["x-gateway"]["spec"]["containers"]
    assert variables(gateway)["DLLM_REDIS__URL"] == "redis://:password@x-redis:6379/0"
    values = {"dllm-stack": {"redis": {"mode": "external", "external": {"url": "rediss://mine"}}}}
    manifests = render("h200-8x", values=values)
    assert one(manifests, "Secret", "x-redis")["stringData"] == {"url": "rediss://mine"}
    assert not [m for m in manifests if m["kind"] == "StatefulSet"]
    for name, key in (("x-gateway", "url"), ("x-router", "url"), ("x-worker-mini", "url")):
        assert variables(pods(manifests)[name]["spec"]["containers"][0])["DLLM_REDIS__URL"] == key


def test_the_trial_redis_keeps_what_it_has_taken(render: Render) -> None:
    (redis,) = pods(render("h200-8x"))["x-redis"]["spec"]["containers"]
    options = dict(zip(redis["args"][::2], redis["args"][1::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"
    mebibytes = int(options["--maxmemory"].removesuffix("mb"))
    assert redis["resources"]["limits"]["memory"] == "1Gi"
    assert mebibytes < 1024 * 2 / 3  # what is written while the log is rewritten needs memory, too


def test_a_password_of_ones_own(render: Render) -> None:
    manifests = render("h200-8x", "dllm-stack.redis.trial.passwordSecret.name=mine")
    assert not [m for m in manifests if m["kind"] == "Secret"]
    for name in ("x-redis", "x-gateway", "x-router", "x-worker-mini"):
        (password,) = [
            entry["valueFrom"]["secretKeyRef"]
            for entry in pods(manifests)[name]["spec"]["containers"][0]["env"]
            if entry["name"] == "REDIS_PASSWORD"
        ]
        assert password == {"name": "mine", "key": "password"}


def test_no_pod_is_told_of_services_as_if_they_were_settings(render: Render) -> None:
    assert not any(pod["spec"]["enableServiceLinks"] for pod in pods(render("h200-8x")).values())


def test_a_new_password_starts_no_pod_anew(render: Render) -> None:
    first, second = render("h200-8x"), render("h200-8x", release="x", kubernetes="1.34.0")
    passwords = {one(manifests, "Secret", "x-redis")["data"]["password"] for manifests in (first, second)}
    assert len(passwords) == 2
    assert pods(first) == pods(second)


def test_what_a_change_starts_anew(render: Render) -> None:
    two = {"pools": {"flash": FLASH}}
    before = pods(render("h200-8x", values={"dllm-stack": two}))

    def restarted(**values: Any) -> set[str]:
        after = pods(render("h200-8x", values={"dllm-stack": two | values}))
        return {name for name in before if before[name] != after[name]}

    services = {"x-gateway", "x-router", "x-worker-mini", "x-worker-flash"}
    assert restarted(config={"log_level": "debug"}) == services
    changed = FLASH | {"engine": {"max_running_requests": 8}}
    assert restarted(pools={"flash": changed}) == {"x-worker-flash"}
    assert restarted(pools={"flash": FLASH | {"nodes": 3}}) == set()
    assert restarted(gateway={"replicas": 5}) == set()


def test_another_redis_starts_anew_whoever_reads_its_url(render: Render) -> None:
    def found(url: str) -> dict[str, Manifest]:
        external = {"redis": {"mode": "external", "external": {"url": url}}}
        return pods(render("h200-8x", values={"dllm-stack": external}))

    before, after = found("redis://a"), found("redis://b")
    assert before.keys() == {"x-gateway", "x-router", "x-worker-mini"}
    assert not [name for name in before if before[name] == after[name]]


def test_redis_goes_where_it_is_told(render: Render) -> None:
    where = {"nodeSelector": {"pool": "cpu"}, "tolerations": [{"key": "cpu", "operator": "Exists"}]}
    spec = pods(render("h200-8x", values={"dllm-stack": {"redis": {"trial": where}}}))["x-redis"]["spec"]
    assert where.items() <= spec.items()


@pytest.mark.parametrize("values", [{}, ALL_ON], ids=["plain", "all"])
def test_everything_fits_together(render: Render, values: dict[str, Any]) -> None:
    manifests = render("h200-8x", values={"dllm-stack": values})
    own = {(m["kind"], m["metadata"]["name"]) for m in manifests}
    selectable = [pod["metadata"]["labels"] for pod in pods(manifests).values()]
    for manifest in manifests:
        if manifest["kind"] in ("Deployment", "StatefulSet"):
            labels = manifest["spec"]["template"]["metadata"]["labels"].items()
            assert manifest["spec"]["selector"]["matchLabels"].items() <= labels
            (selected,) = [
                other
                for other in selectable
                if manifest["spec"]["selector"]["matchLabels"].items() <= other.items()
            ]
            assert selected.items() == labels
        if manifest["kind"] == "Service":
            assert sum(manifest["spec"]["selector"].items() <= labels.items() for labels in selectable) == 1
    for pod in pods(manifests).values():
        spec = pod["spec"]
        volumes = {volume["name"] for volume in spec["volumes"]}
        volumes |= {"data"} if containers(pod)[0]["name"] == "redis" else set()
        mounts = {mount["name"] for container in containers(pod) for mount in container["volumeMounts"]}
        assert mounts == volumes
        for reference in config_maps(spec):
            assert ("ConfigMap", reference) in own
        for claim in [v["persistentVolumeClaim"] for v in spec["volumes"] if "persistentVolumeClaim" in v]:
            assert ("PersistentVolumeClaim", claim["claimName"]) in own
        ports = {port["name"] for port in spec["containers"][0].get("ports", [])}
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert spec["containers"][0].get(kind, {}).get("httpGet", {}).get("port") in {*ports, None}


def config_maps(spec: Manifest) -> list[str]:
    found = [volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume]
    for volume in spec["volumes"]:
        found += [source["configMap"]["name"] for source in volume.get("projected", {}).get("sources", [])]
    return found


def test_only_the_router_may_ask_the_cluster_and_only_for_pods(render: Render) -> None:
    manifests = render("h200-8x")
    for name, pod in pods(manifests).items():
        assert pod["spec"]["automountServiceAccountToken"] is (name == "x-router")
        assert pod["spec"].get("serviceAccountName") == ("x-router" if name == "x-router" else None)
    (rule,) = one(manifests, "Role", "x-router")["rules"]
    assert rule == {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]}
    assert not [m for m in manifests if m["kind"].startswith("Cluster")]
    watched = variables(pods(manifests)["x-router"]["spec"]["containers"][0])["DLLM_ROUTER__WORKER_PODS"]
    asked = dict(part.split("=") for part in watched.split(","))
    found = [
        name for name, pod in pods(manifests).items() if asked.items() <= pod["metadata"]["labels"].items()
    ]
    assert found == ["x-worker-mini"]


def test_weights_are_fetched_before_they_are_needed(render: Render) -> None:
    manifests = render(
        "h200-8x", "dllm-stack.weights.hubSecret.name=hub,dllm-stack.weights.volume.pvc.size=1Ti"
    )
    spec = pods(manifests)["x-worker-mini"]["spec"]
    (fetch,) = spec["initContainers"]
    (job,) = [m for m in manifests if m["kind"] == "Job"]
    ahead = job["spec"]["template"]["spec"]
    assert ahead["containers"] == [fetch]
    assert ahead["affinity"] == spec["affinity"]  # a claim may be bound to the zone of its first pod
    assert fetch["args"] == ["fetch"]
    assert "nvidia.com/gpu" not in str(fetch["resources"])
    assert variables(fetch)["HF_TOKEN"] == "token"
    assert "HF_TOKEN" not in variables(spec["containers"][0])
    assert variables(spec["containers"][0])["HF_HUB_OFFLINE"] == "1"
    assert variables(fetch)["HF_HUB_CACHE"] == variables(spec["containers"][0])["HF_HUB_CACHE"]
    writable = [
        mount.get("readOnly", False) for c in (fetch, spec["containers"][0]) for mount in c["volumeMounts"]
    ]
    assert writable.count(False) > 0
    weights = {
        c["name"]: m for c in containers({"spec": spec}) for m in c["volumeMounts"] if m["name"] == "weights"
    }
    assert "readOnly" not in weights["weights"]
    assert weights["worker"]["readOnly"] is True


def test_a_job_that_would_be_another_has_another_name(render: Render) -> None:
    """As a Job's pod cannot be changed."""

    def job(pool: dict[str, Any] | None = None, **values: Any) -> tuple[str, Manifest]:
        everything = {"weights": {"volume": {"pvc": {"size": "1Ti"}}}, "pools": {"mini": pool or {}}} | values
        (found,) = [m for m in render("h200-8x", values={"dllm-stack": everything}) if m["kind"] == "Job"]
        return found["metadata"]["name"], found["spec"]

    first = job()
    assert job({"nodes": 2}) == first
    assert job(config={"log_level": "debug"}) == first
    others = [
        job({"revision": COMMIT}),
        job(podLabels={"team": "a"}),
        job(image={"pullSecrets": ["pull"]}),
        job(worker={"nodeSelector": {"disk": "fast"}}),
        job(worker={"extraEnv": [{"name": "A", "value": "b"}]}),
    ]
    names = [first[0], *(name for name, _ in others)]
    assert len(set(names)) == len(names)


def test_an_image_by_its_digest(render: Render) -> None:
    digest = "sha256:" + 64 * "0"
    values = {"registry": "r.example", "gateway": f"d@{digest}", "worker": {"nvidia": f"w@{digest}"}}
    found = pods(render("h200-8x", values={"dllm-stack": {"image": values | {"tag": "9"}}}))
    assert found["x-router"]["spec"]["containers"][0]["image"] == f"r.example/d@{digest}"
    assert found["x-worker-mini"]["spec"]["containers"][0]["image"] == f"r.example/w@{digest}"


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
def test_no_job_takes_a_volume_of_one_node_away_from_its_worker(render: Render, mode: str) -> None:
    values = {
        "weights": {"volume": {"pvc": {"size": "100Gi", "accessMode": mode}}},
        "pools": {"mini": {"workersPerNode": 1}},
    }
    manifests = render("h200-8x", values={"dllm-stack": values})
    assert not [m for m in manifests if m["kind"] == "Job"]
    (fetch,) = pods(manifests)["x-worker-mini"]["spec"]["initContainers"]
    assert fetch["args"] == ["fetch"]


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"emptyDir": {"sizeLimit": "100Gi"}}, {"emptyDir": {"sizeLimit": "100Gi"}}),
        ({"hostPath": "/data"}, {"hostPath": {"path": "/data", "type": "Directory"}}),
        ({"image": "r/w:1"}, {"image": {"reference": "r/w:1", "pullPolicy": "IfNotPresent"}}),
        ({"pvc": {"claimName": "mine"}}, {"persistentVolumeClaim": {"claimName": "mine"}}),
        ({"pvc": {"size": "1Ti"}}, {"persistentVolumeClaim": {"claimName": "x-weights"}}),
    ],
)
def test_each_kind_of_volume(render: Render, volume: dict[str, Any], expected: dict[str, Any]) -> None:
    manifests = render("h200-8x", values={"dllm-stack": {"weights": {"volume": volume}}})
    spec = pods(manifests)["x-worker-mini"]["spec"]
    (found,) = [v for v in spec["volumes"] if v["name"] == "weights"]
    assert found == {"name": "weights"} | expected
    assert ("initContainers" in spec) is ("image" not in volume)
    requests = spec["containers"][0]["resources"]["requests"]
    assert requests.get("ephemeral-storage") == ("33Gi" if "emptyDir" in volume else None)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, 120 + 163 + 650),  # 32.5 GB, read at 200 MB/s and fetched at 50
        ({"weights": {"volume": {"pvc": {"size": "1Ti"}}}}, 120 + 163),
        ({"config": {"queue": {"worker_grace_s": 0}}}, None),
    ],
)
def test_a_pools_jobs_wait_for_a_worker_that_fetches_and_loads_first(
    render: Render, values: dict[str, Any], expected: int | None
) -> None:
    found = pods(render("l4-4x", values={"dllm-stack": values}))
    for name in ("x-worker-mini", "x-gateway"):
        (container,) = found[name]["spec"]["containers"]
        given = variables(container).get("DLLM_QUEUE__WORKER_GRACE_S")
        assert given == (None if expected is None else str(expected)), name


def test_gateways_wait_for_as_long_as_the_most_patient_pool(render: Render) -> None:
    found = pods(render("h200-8x", values={"dllm-stack": {"pools": {"flash": FLASH}}}))
    grace_s = {
        name: int(variables(found[name]["spec"]["containers"][0])["DLLM_QUEUE__WORKER_GRACE_S"])
        for name in ("x-worker-mini", "x-worker-flash", "x-gateway")
    }
    assert grace_s["x-worker-mini"] < grace_s["x-worker-flash"] == grace_s["x-gateway"]


@pytest.mark.parametrize(
    ("gateway", "drain_s"), [({}, 600), ({"request_timeout_s": 90.5}, 91), ({"drain_s": 20}, 20)]
)
def test_a_rollout_ends_no_stream(render: Render, gateway: dict[str, float], drain_s: int) -> None:
    """Unless the values say how long they get."""
    found = pods(render("h200-8x", values={"dllm-stack": {"config": {"gateway": gateway}}}))
    spec = found["x-gateway"]["spec"]
    given = variables(spec["containers"][0]).get("DLLM_GATEWAY__DRAIN_S")
    assert given == (None if "drain_s" in gateway else str(drain_s))
    assert spec["terminationGracePeriodSeconds"] == 5 + drain_s + 10


def test_the_variables_that_nobody_may_set_are_those_that_the_chart_sets(render: Render) -> None:
    own = defined("dllm-stack.ownVariables")
    hub = {"weights": {"endpoint": "https://hub.example", "hubSecret": {"name": "hub"}}}
    for name, pod in pods(render("h200-8x", values={"dllm-stack": hub})).items():
        if name != "x-redis":
            (component,) = [key for key in own if f"-{key}" in name]
            names = [entry["name"] for container in containers(pod) for entry in container["env"]]
            assert set(names) == {*own["all"], *own[component]}
        for container in containers(pod):
            names = [entry["name"] for entry in container["env"]]
            assert len(set(names)) == len(names)


def test_what_is_not_on_the_hub_is_not_fetched(render: Render) -> None:
    assert "initContainers" not in pods(render("cpu-dev"))["x-worker-demo"]["spec"]
    values = mini(checkpoint="/weights/mine")
    values["dllm-stack"]["weights"] = {"volume": {"hostPath": "/data"}}
    assert "initContainers" not in pods(render("h200-8x", values=values))["x-worker-mini"]["spec"]


def test_grace_follows_the_drain(render: Render) -> None:
    values = {
        "dllm-stack": {
            "config": {"gateway": {"drain_s": 300}, "worker": {"drain_s": 250}},
            "gateway": {"preStopS": 15},
        }
    }
    manifests = pods(render("h200-8x", values=values))
    gateway = manifests["x-gateway"]["spec"]
    assert gateway["terminationGracePeriodSeconds"] == 15 + 300 + 10
    assert gateway["containers"][0]["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "15"]
    assert manifests["x-worker-mini"]["spec"]["terminationGracePeriodSeconds"] == 250 + 30


ONES_OWN: dict[str, Any] = {
    "resources": {"requests": {"cpu": "7"}},
    "podAnnotations": {"mine": "yes"},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "mine", "operator": "Exists"}],
    "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "priorityClassName": "high",
    "topologySpreadConstraints": [
        {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "extraVolumes": [{"name": "mine", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "mine", "mountPath": "/mine"}],
}


@pytest.mark.parametrize("component", ["gateway", "router", "worker"])
def test_ones_own_additions(render: Render, component: str) -> None:
    more: dict[str, Any] = {}
    if component == "worker":
        more = {"runtimeClassName": "nvidia", "supplementalGroups": [109]}
        more |= {"securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}}}
    everywhere = {"image": {"pullSecrets": ["pull"], "registry": "r.example/a/", "tag": "9"}}
    everywhere |= {"podLabels": {"team": "a"}, "podAnnotations": {"all": "1", "mine": "no"}}
    pod = pods(render("h200-8x", values={"dllm-stack": everywhere | {component: ONES_OWN | more}}))[
        f"x-{component}" + ("-mini" if component == "worker" else "")
    ]
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert container["resources"]["requests"]["cpu"] == "7"
    assert pod["metadata"]["annotations"].items() >= {("mine", "yes"), ("all", "1")}
    assert pod["metadata"]["labels"]["team"] == "a"
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert ONES_OWN["tolerations"][0] in spec["tolerations"]
    assert "podAffinity" in spec["affinity"]
    assert ("nodeAffinity" in spec["affinity"]) is (component == "worker")
    assert spec["priorityClassName"] == "high"
    assert spec["topologySpreadConstraints"] == ONES_OWN["topologySpreadConstraints"]
    assert ONES_OWN["extraEnv"][0] in container["env"]
    assert ONES_OWN["extraVolumes"][0] in spec["volumes"]
    assert ONES_OWN["extraVolumeMounts"][0] in container["volumeMounts"]
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert container["image"].startswith("r.example/a/dllm-stack")
    assert container["image"].endswith(":9")
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert ("add" in container["securityContext"]["capabilities"]) is (component == "worker")
    assert spec.get("runtimeClassName") == more.get("runtimeClassName")
    assert spec["securityContext"].get("supplementalGroups") == more.get("supplementalGroups")


def test_a_pools_own_worker_values(render: Render) -> None:
    values = {
        "dllm-stack": {"pools": {"flash": FLASH | {"worker": {"nodeSelector": {"rack": "1"}, "shmGiB": 64}}}}
    }
    found = pods(render("h200-8x", values=values))
    assert found["x-worker-flash"]["spec"]["nodeSelector"] == {"rack": "1"}
    assert shm(found["x-worker-flash"]["spec"]) == "64Gi"
    assert "nodeSelector" not in found["x-worker-mini"]["spec"]


def test_a_prefix_of_ones_own(render: Render) -> None:
    manifests = render("h200-8x", "dllm-stack.fullnameOverride=chat")
    assert {m["metadata"]["name"].split("-")[0] for m in manifests} == {"chat"}
    (gateway,) = pods(manifests)["chat-gateway"]["spec"]["containers"]
    assert variables(gateway)["DLLM_REDIS__URL"] == "redis://:password@chat-redis:6379/0"


def test_names_that_yaml_takes_for_something_else(render: Render) -> None:
    values = {"pools": {"mini": None, "1": {"model": "llada2.1-mini"}}, "fullnameOverride": "chat"}
    manifests = render("h200-8x", values={"dllm-stack": values}, release="7")
    labels = pods(manifests)["chat-worker-1"]["metadata"]["labels"]
    assert labels["dllm-stack/pool"] == "1"
    for manifest in manifests:
        assert all(isinstance(value, str) for value in manifest["metadata"]["labels"].values())


def test_zones_are_kept_apart(render: Render) -> None:
    values = {"gateway": {"zones": 3}, "redis": {"mode": "external", "external": {"url": "redis://r"}}}
    spec = pods(render("h200-8x", values={"dllm-stack": values}))["x-gateway"]["spec"]
    by_key = {c["topologyKey"]: c for c in spec["topologySpreadConstraints"]}
    zones = by_key["topology.kubernetes.io/zone"]
    assert (zones["minDomains"], zones["whenUnsatisfiable"]) == (3, "DoNotSchedule")


def test_the_settings_file_is_what_was_given(render: Render) -> None:
    config = {"queue": {"tenants": {"acme": {"weight": 2.5}}}, "router": {"policies": []}}
    manifests = render("h200-8x", values={"dllm-stack": {"config": config}})
    assert yaml.safe_load(one(manifests, "ConfigMap", "x-settings")["data"]["settings.yaml"]) == config


def test_a_rollout_takes_away_no_more_than_it_may(render: Render) -> None:
    manifests = render("h200-8x", "dllm-stack.worker.maxUnavailable=25%")
    strategies = {
        m["metadata"]["name"]: m["spec"]["strategy"]["rollingUpdate"]
        for m in manifests
        if m["kind"] == "Deployment"
    }
    assert strategies == {
        "x-gateway": {"maxSurge": 1, "maxUnavailable": 0},
        "x-router": {"maxSurge": 1, "maxUnavailable": 0},
        "x-worker-mini": {"maxSurge": 0, "maxUnavailable": "25%"},  # a pod more would find no GPU
    }
