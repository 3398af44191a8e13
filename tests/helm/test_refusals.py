"""Each thing that the charts refuse to render, what they say, on Helm 4 and on Helm 3."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.helm.conftest import CHARTS, HELMS, OPENED, Render, RenderError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FLASH = {"model": "llada2.1-flash", "revision": COMMIT}
MINE = {
    "checkpoint": "example/mine",
    "revision": COMMIT,
    "facts": {
        "architecture": "LLaDA2MoeModelLM",
        "attention_heads": 16,
        "kv_heads": 4,
        "context_length": 32768,
        "vocab_size": 157184,
        "weights_gb": 32.5,
    },
    "dllm": {"modes": "llada2.1", "mode": "speed"},
}

# what: chart, values, sentences
REFUSALS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "no profile": (
        "dllm-stack",
        {"pools": {"mini": {"model": "llada2.1-mini"}}},
        [
            'profile is "", which is no profile: choose one of b200-8x, cpu-dev, h100-8x, h20-8x, h200-8x, '
            "l4-4x, mi300x-8x, mi325x-8x, mi355x-8x."
        ],
    ),
    "unknown profile": ("h200-8x", {"profile": "h300-8x"}, ['profile is "h300-8x", which is no profile']),
    "no pools": (
        "h200-8x",
        {"pools": {"mini": None}},
        ["pools is empty, so nothing would be served: give one, as in `pools.mini.model: llada2.1-mini`."],
    ),
    "unknown model": (
        "h200-8x",
        {"pools": {"mini": {"model": "llada3"}}},
        ['pools.mini.model is "llada3", which is no model: choose one of dllm-demo, gpt-oss-120b, '],
    ),
    "unknown modes": (
        "h200-8x",
        {
            "models": {"mine": MINE | {"dllm": {"modes": "llada3", "mode": "speed"}}},
            "pools": {"mini": {"model": "mine", "engine": {"mem_fraction": 0.8, "max_running_requests": 8}}},
        },
        [
            'models.mine.dllm.modes is "llada3", which is no mode: choose one of dllm-demo, llada2.0, '
            "llada2.1."
        ],
    ),
    "model not in the profile": (
        "l4-4x",
        {"pools": {"mini": FLASH}},
        [
            'pools.mini.model is "llada2.1-flash", which the profile l4-4x has no entry for: choose one of '
            "llada2.0-mini, llada2.0-mini-cap, llada2.1-mini, or give pools.mini.engine."
        ],
    ),
    "half an engine": (
        "l4-4x",
        {"pools": {"mini": FLASH | {"engine": {"tp": 4}}}},
        [
            "pools.mini.engine needs mem_fraction and max_running_requests, because the profile l4-4x says "
            "nothing of llada2.1-flash: give both."
        ],
    ),
    "a name that no client could send": (
        "h200-8x",
        {
            "models": {"my:model": MINE},
            "pools": {
                "mini": {"model": "my:model", "engine": {"mem_fraction": 0.8, "max_running_requests": 8}}
            },
        },
        [
            "models.my:model is no name for a model, because clients, Redis and metrics know it by that: use "
            "at most 64 letters, digits, dots, dashes and underscores."
        ],
    ),
    "a pool's name that names nothing in Kubernetes": (
        "h200-8x",
        {"pools": {"Mini_1": {"model": "llada2.1-mini"}}},
        [
            "pools.Mini_1 is no name for a pool, because its objects are named by it: use lower-case "
            "letters, digits and dashes."
        ],
    ),
    "a pool's name that is too long": (
        "h200-8x",
        {"pools": {"m" * 60: {"model": "llada2.1-mini"}}},
        ["a name of 69 characters, and 63 are possible: choose a shorter name."],
    ),
    "a prefix that names no Service": (
        "h200-8x",
        {"fullnameOverride": "9lives"},
        [
            'The release\'s name "9lives" begins the names of Services: choose one of at most 35 lower-case '
            "letters, digits and dashes that begins with a letter, or set fullnameOverride to such."
        ],
    ),
    "more workers than GPUs": (
        "h200-8x",
        {"pools": {"mini": FLASH | {"workersPerNode": 3}}},
        [
            "pools.mini puts 3 workers of 4 GPUs on a machine, but h200-8x has 8 GPUs: lower "
            "pools.mini.workersPerNode, or engine.tp."
        ],
    ),
    "more tp than GPUs": (
        "l4-4x",
        {"pools": {"mini": {"engine": {"tp": 8}}}},
        ["pools.mini puts 1 worker of 8 GPUs on a machine, but l4-4x has 4 GPUs"],
    ),
    "no machine": (
        "h200-8x",
        {"pools": {"mini": {"nodes": 0}}},
        ["pools.mini.nodes is 0: give at least 1, or use pools.mini.scaling to have none at times."],
    ),
    "no workers on a machine": (
        "h200-8x",
        {"pools": {"mini": {"workersPerNode": 0}}},
        ["pools.mini.workersPerNode is 0: give at least 1."],
    ),
    "tp on a CPU": (
        "cpu-dev",
        {"pools": {"demo": {"engine": {"tp": 2}}}},
        ["pools.demo.engine.tp is 2, but the profile cpu-dev has no GPUs: set it to 1."],
    ),
    "heads that do not split": (
        "h200-8x",
        {"pools": {"mini": {"engine": {"tp": 6}}}},
        [
            "pools.mini.engine.tp is 6, which does not split the 16 attention heads and 4 KV heads of "
            "llada2.1-mini evenly: choose one of 1, 2, 4, 8, 16."
        ],
    ),
    "weights that do not fit": (
        "h200-8x",
        {"pools": {"mini": FLASH | {"engine": {"tp": 1}}}},
        [
            "pools.mini does not fit: the 206 GB of llada2.1-flash at engine.tp 1 are 206 GB a GPU, and "
            "engine.mem_fraction 0.8 leaves 120 of its 150 GB: raise pools.mini.engine.tp, or choose a "
            "profile with larger GPUs."
        ],
    ),
    "one more replica than ReadWriteOnce can have": (
        "h200-8x",
        {"weights": {"volume": {"pvc": {"size": "100Gi", "accessMode": "ReadWriteOnce"}}}},
        [
            "weights.volume.pvc.accessMode is ReadWriteOnce, but up to 8 workers use the volume, and it can "
            "be on one node only: use a class that can ReadWriteMany, another kind of volume, or one worker "
            "(pools.NAME.workersPerNode: 1)."
        ],
    ),
    "two pools on a ReadWriteOnce claim": (
        "h200-8x",
        {
            "weights": {"volume": {"pvc": {"claimName": "w", "accessMode": "ReadWriteOncePod"}}},
            "pools": {
                "mini": {"workersPerNode": 1},
                "more": {"model": "llada2.0-mini", "workersPerNode": 1},
            },
        },
        ["weights.volume.pvc.accessMode is ReadWriteOncePod, but up to 2 workers use the volume"],
    ),
    "a download into what cannot be written": (
        "h200-8x",
        {"weights": {"volume": {"pvc": {"claimName": "w", "accessMode": "ReadOnlyMany"}}}},
        [
            "weights.volume.pvc.accessMode is ReadOnlyMany, so that nothing can be fetched into it: set "
            "weights.download to false, or use ReadWriteMany."
        ],
    ),
    "a claim of no size": (
        "h200-8x",
        {"weights": {"volume": {"pvc": {"className": "nfs"}}}},
        [
            "weights.volume.pvc has neither claimName nor size: name a claim of yours, or say how large a "
            "new one is to be."
        ],
    ),
    "a claim that is too small for what two pools fetch": (
        "h200-8x",
        {
            "weights": {"volume": {"pvc": {"size": "60Gi"}}},
            "pools": {"more": {"model": "llada2.0-mini"}, "same": {"model": "llada2.1-mini"}},
        },
        ["weights.volume.pvc.size is 60Gi, and 62 GiB of weights are fetched into it: ask for more."],
    ),
    "a folder that is too small for what a worker fetches": (
        "h200-8x",
        {"weights": {"volume": {"emptyDir": {"sizeLimit": "32G"}}}},
        [
            "weights.volume.emptyDir.sizeLimit is 32G, and pools.mini fetches 31 GiB of weights into it: "
            "raise it."
        ],
    ),
    "two volumes": (
        "h200-8x",
        {"weights": {"volume": {"hostPath": "/data", "pvc": {"claimName": "w"}}}},
        [
            "weights.volume has hostPath and pvc, but is one volume: keep one of them, and set the other to "
            "null."
        ],
    ),
    "nothing to load": (
        "h200-8x",
        {"weights": {"download": False}},
        [
            "weights.download is false, but weights.volume is an empty folder, so that pools.mini would have "
            "no weights: set it to true, or weights.volume to where inclusionAI/LLaDA2.1-mini is."
        ],
    ),
    "a path into nothing": (
        "h200-8x",
        {"pools": {"mini": {"checkpoint": "/weights/mini"}}},
        [
            "pools.mini.checkpoint is /weights/mini, but weights.volume, which is mounted there, is an empty "
            "folder: set it to where the weights are."
        ],
    ),
    "a gateway killed while it drains": (
        "h200-8x",
        {"gateway": {"preStopS": 10, "terminationGraceS": 60}, "config": {"gateway": {"drain_s": 60}}},
        [
            "gateway.terminationGraceS is 60, but stopping in order takes up to 80 seconds (preStopS + "
            "config.gateway.drain_s + 10), and what runs longer is killed: raise it, or leave it null."
        ],
    ),
    "a worker killed while it drains": (
        "h200-8x",
        {"worker": {"terminationGraceS": 60}, "config": {"worker": {"drain_s": 30.5}}},
        [
            "worker.terminationGraceS of pools.mini is 60, but stopping in order takes up to 61 seconds "
            "(config.worker.drain_s + 30), and what runs longer is killed: raise it, or leave it null."
        ],
    ),
    "a pool's workers killed while they drain": (
        "h200-8x",
        {"pools": {"mini": {"worker": {"terminationGraceS": 10}}}},
        ["worker.terminationGraceS of pools.mini is 10, but stopping in order takes up to 60 seconds"],
    ),
    "one Redis for several zones": (
        "h200-8x",
        {"gateway": {"zones": 3}},
        [
            "gateway.zones is 3, but with redis.mode trial one zone's loss takes Redis with it: set "
            "redis.mode to external, with a Redis that survives a zone, or gateway.zones to 1."
        ],
    ),
    "a Redis that is nowhere": (
        "h200-8x",
        {"redis": {"mode": "external"}},
        [
            "redis.mode is external, but neither redis.external.url nor redis.external.secret.name says "
            "where it is: give one of them."
        ],
    ),
    "two Redis": (
        "h200-8x",
        {"redis": {"mode": "external", "external": {"url": "redis://r", "secret": {"name": "s"}}}},
        ["redis.external.url and redis.external.secret.name both say where Redis is: give one of them."],
    ),
    "a URL that is not Redis'": (
        "h200-8x",
        {"redis": {"mode": "external", "external": {"url": "http://redis:6379"}}},
        [
            "redis.external.url is none of redis://, rediss://, redis+sentinel:// and redis+cluster://: "
            "correct it (docs/operations.md has examples)."
        ],
    ),
    "keys on, and no keys": (
        "h200-8x",
        {"keys": {"mode": "file"}},
        [
            "keys.mode is file, but keys.secret.name does not say which Secret holds the key file: make one "
            "(`dllm-stack keys create TENANT --entry` prints an entry) and name it."
        ],
    ),
    "a Redis that is killed when it is full": (
        "h200-8x",
        {"redis": {"trial": {"maxMemoryMiB": 900}}},
        [
            "redis.trial.maxMemoryMiB is 900, too near to the 1Gi of redis.trial.resources.limits.memory: "
            "data take at most four fifths of it, as rewriting the log takes memory too. Raise the limit, or "
            "lower the other."
        ],
    ),
    "keys in a Redis that forgets": (
        "h200-8x",
        {"keys": {"mode": "redis"}, "redis": {"trial": {"storage": {"size": ""}}}},
        [
            "keys.mode is redis, but redis.trial.storage.size is empty, so that a restart would forget all "
            "keys: give the volume a size."
        ],
    ),
    "scaling to none without KEDA": (
        "h200-8x",
        {"pools": {"mini": {"scaling": {"min": 0, "max": 8}}}},
        [
            "pools.mini.scaling is given, but keda.enabled is false, so nothing would scale, and nothing "
            "bring back the workers of a pool that has none: set keda.enabled to true where KEDA is "
            "installed, or remove pools.mini.scaling."
        ],
    ),
    "scaling without KEDA": (
        "h200-8x",
        {"pools": {"mini": {"scaling": {"min": 1, "max": 8}}}},
        [
            "pools.mini.scaling is given, but keda.enabled is false, so nothing would scale: set "
            "keda.enabled to true where KEDA is installed, or remove pools.mini.scaling."
        ],
    ),
    "scaling to none without patience": (
        "h200-8x",
        {"keda": {"enabled": True}, "pools": {"mini": {"scaling": {"min": 0}}}},
        [
            "pools.mini.scaling.min is 0, and config.queue.cold_start_s is not set: requests for a pool "
            "without workers would get 503 at once, and never bring one up. Set it to the time that a worker "
            "takes to start, 1575 s at most."
        ],
    ),
    "more workers at least than at most": (
        "h200-8x",
        {"keda": {"enabled": True}, "pools": {"mini": {"scaling": {"min": 9}}}},
        ["pools.mini.scaling.min is 9, more than its max of 8: raise the one or lower the other."],
    ),
    "more gateways at least than at most": (
        "h200-8x",
        {"gateway": {"autoscaling": {"enabled": True, "min": 9}}},
        ["gateway.autoscaling.min is 9, more than its max of 8: raise the one or lower the other."],
    ),
    "two pools that scale by one queue": (
        "h200-8x",
        {
            "keda": {"enabled": True},
            "pools": {"mini": {"scaling": {"max": 9}}, "more": {"model": "llada2.1-mini"}},
        },
        [
            "pools.mini and pools.more both serve llada2.1-mini, and so one queue, by which only one of them "
            "can be scaled: take `scaling` out, or make them one pool."
        ],
    ),
    "a route to nowhere": (
        "h200-8x",
        {"gateway": {"route": {"enabled": True}}},
        [
            "gateway.route.enabled needs gateway.route.parentRefs: the Gateway that the HTTPRoute belongs "
            "to, as in [{name: my-gateway, namespace: infra}]."
        ],
    ),
    "code of any day": (
        "h200-8x",
        {"pools": {"mini": {"model": "llada2.1-flash"}}},
        [
            "pools.mini.revision is not given, and the engine would run whatever code "
            "inclusionAI/LLaDA2.1-flash holds on that day: give the commit to use, 40 hex digits, or a path "
            "in pools.mini.checkpoint."
        ],
    ),
    "code of a branch": (
        "h200-8x",
        {"pools": {"mini": {"revision": "main"}}},
        [
            'pools.mini.revision is "main", which can change, and the engine runs the code that '
            "inclusionAI/LLaDA2.1-mini holds there: give the commit, 40 hex digits."
        ],
    ),
    "another checkpoint under the first one's revision": (
        "h200-8x",
        {"pools": {"mini": {"checkpoint": "example/mine"}}},
        ["pools.mini.revision is not given, and the engine would run whatever code example/mine holds"],
    ),
    "a checkpoint of which nothing is known": (
        "h200-8x",
        {
            "models": {"mine": {"checkpoint": "example/mine"}},
            "pools": {"mini": {"model": "mine", "engine": {"mem_fraction": 0.8, "max_running_requests": 8}}},
        },
        ["pools.mini.revision is not given, and the engine would run whatever code example/mine holds"],
    ),
    "GPUs of the other vendor": (
        "mi300x-8x",
        {"worker": {"resources": {"limits": {"nvidia.com/gpu": 1}}}},
        [
            "worker.resources of pools.mini has nvidia.com/gpu, but the chart itself asks for GPUs, one "
            "vendor's, as the profile and tp say: remove it."
        ],
    ),
    "a variable that is there already": (
        "h200-8x",
        {
            "gateway": {"extraEnv": [{"name": "DLLM_GATEWAY__DRAIN_S", "value": "5"}]},
            "worker": {"extraEnv": [{"name": "HF_HUB_OFFLINE", "value": "0"}]},
        },
        [
            "gateway.extraEnv has DLLM_GATEWAY__DRAIN_S, which the chart sets, and Kubernetes refuses a "
            "variable that is there twice: remove it, and use the value of the chart that it comes from.",
            "worker (of pools.mini).extraEnv has HF_HUB_OFFLINE, which",
        ],
    ),
    "two node affinities": (
        "h200-8x",
        {"worker": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}},
        [
            "worker.affinity of pools.mini has a nodeAffinity, and so does the chart make one of `products`: "
            "put both conditions into yours and set products to [], or use worker.nodeSelector."
        ],
    ),
    "tp behind the chart's back": (
        "h200-8x",
        {"config": {"worker": {"engine_args": ["--tp-size=4"]}}},
        [
            '"--tp-size=4" is among the engine arguments of pools.mini, where the chart does not see it when '
            "it counts GPUs: set pools.mini.engine.tp."
        ],
    ),
    "every reason at once": (
        "h200-8x",
        {
            "gateway": {"zones": 2},
            "keys": {"mode": "file"},
            "pools": {"mini": {"workersPerNode": 9, "revision": "v1"}},
        },
        ["gateway.zones is 2", "keys.mode is file", "pools.mini puts 9 workers", "pools.mini.revision is"],
    ),
}


def under(chart: str, values: dict[str, Any]) -> dict[str, Any]:
    return values if chart == "dllm-stack" else {"dllm-stack": values}


@pytest.mark.parametrize("helm", HELMS)
@pytest.mark.parametrize("what", REFUSALS)
def test_it_is_not_rendered(render: Render, what: str, helm: str) -> None:
    chart, values, sentences = REFUSALS[what]
    with pytest.raises(RenderError) as refusal:
        render(chart, values=under(chart, values), helm=helm)
    for sentence in sentences:
        assert sentence in str(refusal.value)


IMAGE = (
    "weights.volume.image needs Kubernetes 1.33 or later, and this is v1.32.0: use another kind of volume."
)


@pytest.mark.parametrize("helm", HELMS)
def test_a_volume_that_kubernetes_does_not_have_yet(render: Render, helm: str) -> None:
    image = "dllm-stack.weights.volume.image=registry.example/weights:1"
    with pytest.raises(RenderError, match=re.escape(IMAGE)):
        render("h200-8x", image, kubernetes="1.32.0", helm=helm)
    assert render("h200-8x", image, kubernetes="1.33.0", helm=helm)


def test_every_sentence_has_its_refusal() -> None:
    tested = " ".join(
        [IMAGE, OPENED, *(sentence for _, _, sentences in REFUSALS.values() for sentence in sentences)]
    )
    sentences = 0
    for file in ("_checks.tpl", "_edges.tpl"):
        for line in (CHARTS / "dllm-stack" / "templates" / file).read_text().splitlines():
            if line.endswith(".") and not line.startswith(("{{- ", "{{/*", "#")):
                sentences += 1
                literal = max(re.split(r"{{.*?}}", line), key=len).strip()
                assert literal in tested, f"{file}: {line}"
    assert sentences > 30
