"""What stands around gateways, routers and workers: who reaches them; what watches, scales and tries them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from deploy.charts.helm import Manifest, run
from deploy.charts.matrix import EVERYTHING, Case
from deploy.charts.places import BASE, HELM, ROOT, charts
from dllm_stack.keys import KeyStore
from dllm_stack.local.service import free_port
from dllm_stack.messages import Job, TextPrompt
from dllm_stack.queue import PoolQueue, Registry
from dllm_stack.redis import Connections
from dllm_stack.settings import (
    CONFIGS,
    AccessSettings,
    QueueSettings,
    RedisSettings,
    RouterSettings,
    Settings,
)
from gateway.app import create_app
from monitoring.rules import rule_files
from tests.docs.pages import rows_of
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import serving
from tests.helm.conftest import Render, RenderError, one
from tests.helm.reachability import Peer, Target, reaches, target
from tests.keys.kit import pass_time
from tests.monitoring.test_rules import run as promtool
from tests.router.test_router import running as routing
from tests.waiting import eventually

SCRIPT = BASE / "files" / "test" / "stream_chat.py"
PAUSE_S = 10  # what a proxy may have to wait for beyond the gateway's own limit


@pytest.fixture(scope="module")
def everything() -> list[Manifest]:
    return Case("everything", HELM / "h200-8x", EVERYTHING).manifests()


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


# Routes


def _routed(manifests: list[Manifest]) -> dict[str, list[tuple[str, bool]]]:
    """Paths, and whether all below them are meant, by the kind of what routes them."""
    ingress, route = one(manifests, "Ingress", "x-gateway"), one(manifests, "HTTPRoute", "x-gateway")
    (rule,), (host,) = route["spec"]["rules"], ingress["spec"]["rules"]
    return {
        "Ingress": [(path["path"], path["pathType"] == "Prefix") for path in host["http"]["paths"]],
        "HTTPRoute": [
            (match["path"]["value"], match["path"]["type"] == "PathPrefix") for match in rule["matches"]
        ],
    }


def _leads_to(paths: list[tuple[str, bool]], path: str) -> bool:
    return any(path == to or (below and path.startswith(f"{to}/")) for to, below in paths)


def test_every_path_of_the_api_is_routed_and_no_other(everything: list[Manifest]) -> None:
    included = [getattr(route, "original_router", None) for route in create_app(Settings()).routes]
    api = {"/openapi.json"} | {route.path for router in included if router for route in router.routes}
    inner = {"/healthz", "/readyz", "/metrics"}
    assert inner < api
    for paths in _routed(everything).values():
        assert [path for path in sorted(api - inner) if not _leads_to(paths, path)] == []
        assert [path for path in inner | {"/admin/pools", "/admin/keys"} if _leads_to(paths, path)] == []


def test_the_page_is_not_routed_where_there_is_none(render: Render) -> None:
    values = {"config": {"gateway": {"playground": False}}, "gateway": {"ingress": {"enabled": True}}}
    (ingress,) = of_kind(render("cpu-dev", values={"dllm-stack": values}), "Ingress")
    (rule,) = ingress["spec"]["rules"]
    assert not {"/", "/playground"} & {path["path"] for path in rule["http"]["paths"]}


def test_proxies_do_not_buffer_and_wait_for_longer_than_the_gateway(everything: list[Manifest]) -> None:
    timeout_s = EVERYTHING["config"]["gateway"]["request_timeout_s"]
    nginx = one(everything, "Ingress", "x-gateway")["metadata"]["annotations"]
    of_nginx = "nginx.ingress.kubernetes.io"
    assert nginx[f"{of_nginx}/proxy-buffering"] == "off"
    assert nginx[f"{of_nginx}/proxy-body-size"] == str(Settings().gateway.max_body_bytes)
    for direction in ("read", "send"):
        assert int(nginx[f"{of_nginx}/proxy-{direction}-timeout"]) >= timeout_s + PAUSE_S
    (rule,) = one(everything, "HTTPRoute", "x-gateway")["spec"]["rules"]
    for given in rule["timeouts"].values():
        assert int(given.removesuffix("s")) >= timeout_s + PAUSE_S


def test_annotations_of_ones_own_win(render: Render) -> None:
    name = "nginx.ingress.kubernetes.io/proxy-read-timeout"
    ingress = {"enabled": True, "annotations": {name: "7", "a.example/b": "c"}}
    (made,) = of_kind(render("cpu-dev", values={"dllm-stack": {"gateway": {"ingress": ingress}}}), "Ingress")
    assert made["metadata"]["annotations"][name] == "7"
    assert made["metadata"]["annotations"]["a.example/b"] == "c"
    assert "nginx.ingress.kubernetes.io/proxy-buffering" in made["metadata"]["annotations"]


# Networks


def _reached(manifests: list[Manifest]) -> set[tuple[str, str, int]]:
    """(who, what, port) for all that is possible."""
    workloads = (
        of_kind(manifests, "Deployment") + of_kind(manifests, "StatefulSet") + of_kind(manifests, "Job")
    )
    targets = {workload["metadata"]["name"]: target(workload) for workload in workloads}
    peers = {name: Peer(to.namespace, to.labels) for name, to in targets.items()}
    for pod in of_kind(manifests, "Pod"):
        peers[pod["metadata"]["name"]] = Peer("serving", pod["metadata"]["labels"])
    peers |= {
        "outside": Peer("", {}),
        "neighbour": Peer("serving", {"app": "other"}),
        "prometheus": Peer("monitoring", {"app": "prometheus"}),
        "console": Peer("serving", {"app": "console"}),
        "ingress": Peer("ingress", {"app": "proxy"}),
    }
    ports = {8000, 8001, 8002, 8003, 6379, 30000}  # the last is an engine's
    policies = of_kind(manifests, "NetworkPolicy")
    return {
        (who, what, port)
        for who, peer in peers.items()
        for what, to in targets.items()
        for port in ports
        if reaches(peer, to, port, policies)
    }


def test_of_a_release_only_the_gateway_is_reached(render: Render) -> None:
    reached = _reached(render("h200-8x"))
    assert {(what, port) for who, what, port in reached if who == "neighbour"} == {("x-gateway", 8000)}
    assert {(what, port) for who, what, port in reached if who == "outside"} == {("x-gateway", 8000)}
    assert {(what, port) for who, what, port in reached if who == "prometheus"} == {
        ("x-gateway", 8000),
        ("x-router", 8001),
        ("x-worker-mini", 8002),
    }
    assert {who for who, what, _ in reached if what == "x-redis"} == {
        "x-gateway",
        "x-router",
        "x-worker-mini",
    }
    assert {port for _, _, port in reached} == {8000, 8001, 8002, 6379}


def test_with_everything_each_port_is_for_those_named(everything: list[Manifest]) -> None:
    reached = _reached(everything)
    assert {who for who, what, port in reached if port == 8000} == {"ingress", "prometheus", "x-test"}
    assert {(who, what) for who, what, port in reached if port == 8003} == {("console", "x-gateway")}
    assert {who for who, _, port in reached if port in (8001, 8002)} == {"prometheus"}
    assert 30000 not in {port for _, _, port in reached}


def test_helm_test_reaches_redis_where_it_has_to_make_a_key(render: Render) -> None:
    assert ("x-test", "x-redis", 6379) in _reached(render("h200-8x", "dllm-stack.keys.mode=redis"))
    assert ("x-test", "x-redis", 6379) not in _reached(render("h200-8x"))


def test_without_policies_everybody_reaches_everything(render: Render) -> None:
    """That the test above would see a hole."""
    reached = _reached(render("h200-8x", "dllm-stack.networkPolicy.enabled=false"))
    assert ("outside", "x-worker-mini", 30000) in reached


def test_pods_of_another_release_are_somebody_else(render: Render) -> None:
    policies = of_kind(render("h200-8x"), "NetworkPolicy")
    (redis,) = of_kind(render("h200-8x"), "StatefulSet")
    gateway = target(one(render("h200-8x", release="y"), "Deployment", "y-gateway"))
    assert not reaches(Peer("serving", gateway.labels), target(redis), 6379, policies)
    assert isinstance(gateway, Target)


# Disruptions and scaling


def test_of_every_deployment_one_pod_may_be_away(everything: list[Manifest]) -> None:
    budgets = {b["metadata"]["name"]: b["spec"] for b in of_kind(everything, "PodDisruptionBudget")}
    deployments = {d["metadata"]["name"]: d["spec"] for d in of_kind(everything, "Deployment")}
    assert set(budgets) == set(deployments)
    for name, deployment in deployments.items():
        assert budgets[name]["selector"] == deployment["selector"]
        assert budgets[name]["maxUnavailable"] == 1


def test_what_scales_a_deployment_alone_says_how_many(everything: list[Manifest]) -> None:
    targets = [
        scaler["spec"]["scaleTargetRef"]["name"]
        for kind in ("HorizontalPodAutoscaler", "ScaledObject")
        for scaler in of_kind(everything, kind)
    ]
    assert sorted(targets) == ["x-gateway", "x-worker-mini"]
    for deployment in of_kind(everything, "Deployment"):
        assert ("replicas" in deployment["spec"]) is (deployment["metadata"]["name"] not in targets)


# (waiting, running, slots, seconds of the oldest that is not flex) -> workers wanted, of 32 slots each.
LOADS = {
    "nothing to do": ((0, 0, 64, 0), 0),
    "busy, none waits: as many as are busy": ((0, 60, 64, 0), 3),
    "one job, no worker": ((1, 0, 0, 2), 1),
    "many jobs, no worker": ((100, 0, 0, 2), 4),
    "a few long jobs wait for a worker that is full": ((3, 8, 32, 20), 2),
    "and still while the next one loads": ((3, 8, 32, 300), 2),
    "only flex waits": ((3, 8, 32, 0), 1),
}


@pytest.fixture(scope="module")
def triggers(render: Render) -> list[dict[str, Any]]:
    values = {"keda": {"enabled": True}, "pools": {"mini": {"scaling": {"max": 8}}}}
    (scaled,) = of_kind(render("h200-8x", values={"dllm-stack": values}), "ScaledObject")
    assert (scaled["spec"]["minReplicaCount"], scaled["spec"]["maxReplicaCount"]) == (1, 8)
    found: list[dict[str, Any]] = scaled["spec"]["triggers"]
    assert all(trigger["metricType"] == "AverageValue" for trigger in found)
    return [trigger["metadata"] for trigger in found]


def test_workers_wanted_follow_the_load(triggers: list[dict[str, Any]], tmp_path: Path) -> None:
    """Prometheus evaluates what KEDA asks; the autoscaler divides by the threshold, and takes the largest."""
    tests = []
    for name, ((waiting, running, slots, oldest_s), workers) in LOADS.items():
        values = [waiting + running, (oldest_s > 15) * (slots // 32 + 1)]
        wanted = max(-(-value // int(t["threshold"])) for value, t in zip(values, triggers, strict=True))
        assert wanted == workers, name
        of_pool = 'pool="llada2.1-mini", namespace="serving"'
        series = {
            f'dllm_queue_jobs{{{of_pool}, tier="default"}}': waiting,
            f'dllm_queue_jobs{{{of_pool}, tier="flex"}}': 0,
            f"dllm_pool_jobs_running{{{of_pool}}}": running,
            f"dllm_pool_slots{{{of_pool}}}": slots,
            f'dllm_queue_oldest_age_seconds{{{of_pool}, tier="default"}}': oldest_s,
            f'dllm_queue_oldest_age_seconds{{{of_pool}, tier="flex"}}': 900,
        }
        by_two = {
            s.replace("}", f', pod="{router}"}}'): value for s, value in series.items() for router in "ab"
        }
        others = {s.replace("serving", "elsewhere"): 1000 for s in series}
        tests.append(
            {
                "name": name,
                "input_series": [
                    {"series": s, "values": f"{value}x5"} for s, value in (by_two | others).items()
                ],
                "promql_expr_test": [
                    {"expr": t["query"], "eval_time": "1m", "exp_samples": [{"labels": "{}", "value": value}]}
                    for t, value in zip(triggers, values, strict=True)
                ],
            }
        )
    file = tmp_path / "scaling.yml"
    file.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": tests}))
    promtool("promtool", "test", "rules", file)


def test_keda_asks_for_metrics_that_there_are(triggers: list[dict[str, Any]]) -> None:
    exposed = {row[0].strip("`") for row in rows_of("metrics.md", "metric", "type")}
    asked = {name for trigger in triggers for name in re.findall(r"dllm_\w+", trigger["query"])}
    assert len(asked) == 4
    assert asked <= exposed


async def test_routers_tell_of_a_job_that_waits_for_the_first_worker(
    triggers: list[dict[str, Any]], connections: Connections, redis_settings: RedisSettings
) -> None:
    """All that KEDA asks for is there while a pool has no worker, and says that one is wanted."""
    queue_settings = QueueSettings(heartbeat_s=0.1, heartbeat_ttl_s=60, cold_start_s=600)
    settings = Settings(redis=redis_settings, queue=queue_settings, router=RouterSettings(port=free_port()))
    await Registry(connections).publish("tiny", None)
    await PoolQueue(connections, "tiny", queue_settings).admit(
        Job(id="0" * 32, pool="tiny", gateway="g", prompt=TextPrompt("hi"))
    )
    asked = {name for trigger in triggers for name in re.findall(r"dllm_\w+", trigger["query"])}
    told: dict[str, float] = {}
    async with routing(settings) as url, aiohttp.ClientSession() as http:

        async def all_told() -> bool:
            try:
                async with http.get(f"{url}/metrics") as answer:
                    text = await answer.text()
            except aiohttp.ClientConnectorError:  # it does not listen yet
                return False
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    if sample.name in asked and sample.labels["pool"] == "tiny":
                        told[sample.name] = max(told.get(sample.name, 0), sample.value)
            return set(told) == asked and told["dllm_queue_jobs"] == 1

        await eventually(all_told)
    assert (told["dllm_pool_slots"], told["dllm_pool_jobs_running"]) == (0, 0)


def test_a_pool_that_nobody_tells_of_is_not_scaled_to_none(triggers: list[dict[str, Any]]) -> None:
    """KEDA takes no answer for an error, which changes nothing, and not for a zero."""
    assert {trigger["ignoreNullValues"] for trigger in triggers} == {"false"}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (
            {"gateway": {"autoscaling": {"enabled": True, "min": 9}}},
            "gateway.autoscaling.min is 9, more than its max of 8",
        ),
        ({"gateway": {"route": {"enabled": True}}}, "gateway.route.enabled needs gateway.route.parentRefs"),
        (
            {"keda": {"enabled": True}, "pools": {"mini": {"scaling": {"min": 3, "max": 2}}}},
            "pools.mini.scaling.min is 3, more than its max of 2",
        ),
        (
            {"keda": {"enabled": True}, "pools": {"mini": {"scaling": {"min": 0}}}},
            "pools.mini.scaling.min is 0, and config.queue.cold_start_s is not set",
        ),
        (
            {
                "keda": {"enabled": True},
                "pools": {"mini": {"scaling": {"min": 1}}, "other": {"model": "llada2.1-mini"}},
            },
            "pools.mini and pools.other both serve llada2.1-mini",
        ),
    ],
)
def test_what_cannot_work_is_refused(render: Render, values: dict[str, Any], why: str) -> None:
    with pytest.raises(RenderError, match=re.escape(why)):
        render("h200-8x", values={"dllm-stack": values})


# Monitoring


def test_jobs_are_called_as_the_rules_ask(everything: list[Manifest]) -> None:
    monitors = of_kind(everything, "PodMonitor")
    asked = set(
        re.findall(r'job=~"([\w|]+)"', "".join(file.read_text() for file in rule_files())).pop().split("|")
    )
    components = {
        monitor["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"] for monitor in monitors
    }
    assert components == asked
    assert {monitor["spec"]["jobLabel"] for monitor in monitors} == {"app.kubernetes.io/component"}


def test_monitors_select_pods_that_have_the_port(everything: list[Manifest]) -> None:
    pods = [d["spec"]["template"] for d in of_kind(everything, "Deployment")]
    for monitor in of_kind(everything, "PodMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        chosen = [pod for pod in pods if wanted <= pod["metadata"]["labels"].items()]
        assert chosen
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        for pod in chosen:
            (container,) = pod["spec"]["containers"]
            assert endpoint["port"] in {port["name"] for port in container["ports"]}


def test_no_label_of_ours_is_taken_by_the_operator(everything: list[Manifest]) -> None:
    """Else Prometheus would call it `exported_endpoint`, and rules and dashboards would not find it."""
    ours = set(
        re.findall(r"`(\w+)`", " ".join(row[2] for row in rows_of("metrics.md", "metric", "type", "labels")))
    )
    set_by_operator = {"namespace", "pod", "container", "endpoint", "job", "instance"}
    assert "endpoint" in ours
    for monitor in of_kind(everything, "PodMonitor"):
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        dropped = {
            label
            for relabeling in endpoint["relabelings"]
            if relabeling.get("action") == "labeldrop"
            for label in relabeling["regex"].split("|")
        }
        assert not ours & (set_by_operator - dropped)


def test_rules_are_those_of_configs(everything: list[Manifest]) -> None:
    (rules,) = of_kind(everything, "PrometheusRule")
    written = [group for file in rule_files() for group in yaml.safe_load(file.read_text())["groups"]]
    assert rules["spec"]["groups"] == written
    assert "{{ $labels.instance }}" in str(written)


def test_dashboards_are_those_of_configs(everything: list[Manifest]) -> None:
    made = {
        name: text
        for manifest in of_kind(everything, "ConfigMap")
        if manifest["metadata"]["labels"].get("grafana_dashboard") == "1"
        for name, text in manifest["data"].items()
    }
    written = {file.name: file.read_text() for file in CONFIGS.glob("grafana/dashboards/*.json")}
    assert {name: text.strip() for name, text in made.items()} == {n: t.strip() for n, t in written.items()}


# helm test


async def _helm_test(url: str, *models: str, within_s: int = 0, **environment: str) -> tuple[int, str]:
    """As the pod runs it: its command, with the gateway's address in place of the Service's."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SCRIPT.read_text(),
        str(within_s),
        url,
        *models,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        | environment,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def test_helm_test_streams_a_chat(connections: Connections, redis_settings: RedisSettings) -> None:
    settings = Settings(redis=redis_settings, queue=QueueSettings(heartbeat_s=0.1))
    async with (
        FakeWorker(connections, settings.queue, blocks=["Hello ", "world"]).working() as worker,
        serving(settings) as served,
    ):
        status, said = await _helm_test(served.url, worker.pool)
        assert (status, said.count("tiny"), said.count("'Hello world'")) == (0, 1, 1), said
        status, said = await _helm_test(served.url, "no-such-model")
    assert status == 1
    assert "no-such-model: HTTP 404" in said


async def test_helm_test_makes_its_key_and_takes_it_back(
    connections: Connections, redis_settings: RedisSettings
) -> None:
    settings = Settings(
        redis=redis_settings, queue=QueueSettings(heartbeat_s=0.1), access=AccessSettings(keys="redis")
    )
    await pass_time(connections)
    async with (
        FakeWorker(connections, settings.queue, blocks=["Hello ", "world"]).working() as worker,
        serving(settings) as served,
    ):
        status, said = await _helm_test(served.url, worker.pool)
        assert (status, "HTTP 401" in said) == (1, True), said
        by_redis = {"DLLM_ACCESS__KEYS": "redis", "DLLM_REDIS__URL": redis_settings.url}
        # The gateway has to hear of the key first.
        status, said = await _helm_test(served.url, worker.pool, within_s=120, MAKE_KEY="1", **by_redis)
        assert (status, "'Hello world'" in said) == (0, True), said
    directory = await KeyStore(connections).read()
    assert not directory.tenants


def test_the_pod_runs_that_script(everything: list[Manifest]) -> None:
    (pod,) = of_kind(everything, "Pod")
    (container,) = pod["spec"]["containers"]
    python, option, script, seconds, url, *models = container["command"]
    assert (python, option, url) == ("python", "-c", "http://x-gateway:80")
    assert script.strip() == SCRIPT.read_text().strip()
    assert "$(" not in script  # Kubernetes would take it for a variable
    assert set(models) == {"llada2.1-mini", "gpt-oss-120b"}
    assert float(seconds) > 600
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"


# NOTES.txt


def _notes(values: str) -> str:
    """As Helm 4 prints them; Helm 3 asks a cluster first."""
    arguments = ("install", "x", HELM / "h200-8x", "--namespace", "serving", "--dry-run=client")
    return run(*arguments, "--values", "-", values=values).partition("NOTES:\n")[2]


def test_notes_are_commands_to_paste() -> None:
    notes = _notes("{}")
    assert "API KEYS ARE OFF" in notes
    assert "--set dllm-stack.keys.mode=redis" in notes
    assert "kubectl --namespace serving port-forward service/x-gateway 8000:80" in notes
    assert "helm test x --namespace serving" in notes
    (command,) = re.findall(r"^  curl (?:.*\\\n)*.*$", notes, re.MULTILINE)
    asked = json.loads(shlex.split(command.replace("\\\n", " "))[-1])
    assert (asked["model"], asked["stream"]) == ("llada2.1-mini", True)
    (program,) = re.findall(r"^python3 - <<'PY'\n(.*)^PY$", notes, re.MULTILINE | re.DOTALL)
    compile(program, "NOTES", "exec")
    box = notes[notes.index("*****") :].splitlines()[:4]
    assert len({len(line) for line in box}) == 1, box


def test_notes_say_how_to_get_a_key() -> None:
    notes = _notes("dllm-stack: {keys: {mode: redis}, gateway: {ingress: {enabled: true, host: ai.example}}}")
    assert "API KEYS ARE OFF" not in notes
    assert "exec deployment/x-gateway --container gateway -- dllm-stack keys create" in notes
    assert '-H "Authorization: Bearer $API_KEY"' in notes
    assert "http://ai.example/v1/chat/completions" in notes


# The charts themselves


@pytest.mark.parametrize("chart", charts(), ids=lambda chart: chart.name)
def test_charts_are_alike(chart: Path) -> None:
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    base = yaml.safe_load((BASE / "Chart.yaml").read_text())
    for field in ("version", "appVersion", "kubeVersion", "type", "apiVersion"):
        assert about[field] == base[field]
    if chart != BASE:
        assert about["dependencies"] == [{"name": "dllm-stack", "version": base["version"]}]
        assert (chart / "charts" / "dllm-stack").resolve() == BASE
