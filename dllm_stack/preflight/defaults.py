"""What the chart of a profile installs when nothing else is said."""

from __future__ import annotations

import math
from decimal import Decimal

from dllm_stack.preflight.needs import GPU_LABELS, GPU_RESOURCES, Claim, Kind, Needs, Object, Workload
from worker.engine.catalog import Engine, Profile, load_model

# A test compares all of this with the charts.
PRODUCTS = {
    "h100-8x": ["NVIDIA-H100-80GB-HBM3"],
    "h200-8x": ["NVIDIA-H200"],
    "b200-8x": ["NVIDIA-B200"],
    "h20-8x": ["NVIDIA-H20", "NVIDIA-H20-3e"],
    "l4-4x": ["NVIDIA-L4"],
    "mi300x-8x": ["AMD_Instinct_MI300X_OAM", "AMD_Instinct_MI300X"],
    "mi325x-8x": ["AMD_Instinct_MI325X", "AMD_Instinct_MI325X_OAM", "AMD_Instinct_MI325_OAM"],
    "mi355x-8x": ["AMD_Instinct_MI355X", "AMD_Instinct_MI355X_OAM", "AMD_Instinct_MI355_OAM"],
}
MODELS = {"cpu-dev": "dllm-demo"}
MODEL = "llada2.1-mini"

_KINDS = (
    Kind("", "v1", "ConfigMap"),
    Kind("", "v1", "Secret"),
    Kind("", "v1", "Service"),
    Kind("", "v1", "ServiceAccount"),
    Kind("apps", "v1", "Deployment"),
    Kind("apps", "v1", "StatefulSet"),
    Kind("networking.k8s.io", "v1", "NetworkPolicy"),
    Kind("policy", "v1", "PodDisruptionBudget"),
    Kind("rbac.authorization.k8s.io", "v1", "Role"),
    Kind("rbac.authorization.k8s.io", "v1", "RoleBinding"),
)
_QUEUE = Claim("data-redis-0", Decimal(4 * 2**30), None, "ReadWriteOnce")
_GRANTS = {("", "pods"): frozenset({"get", "list", "watch", "patch"})}


def of_profile(profile: Profile, models: list[str], nodes: int) -> Needs:
    """Of a pool for each model, on machines of its own.

    Args:
        models: the profile must have an entry for each.
        nodes: machines of each pool.
    """
    small = profile.vendor == "cpu"
    services = [
        _service("gateway", 1 if small else 2, "100m" if small else "1", "256Mi" if small else "512Mi"),
        _service("router", 1 if small else 2, "100m" if small else "500m", "128Mi" if small else "256Mi"),
        _service("redis", 1, "250m", "512Mi"),
    ]
    workers = [_worker(profile, model, profile.models[model], nodes) for model in models]
    return Needs(
        workloads=(*services, *workers),
        claims=(_QUEUE,),
        kinds=frozenset(_KINDS),
        grants=_GRANTS,
        exact=False,
    )


def _service(name: str, replicas: int, cpu: str, memory: str) -> Workload:
    requests = {"cpu": cpu, "memory": memory}
    return Workload(name, replicas, {"containers": [{"name": name, "resources": {"requests": requests}}]})


def _worker(profile: Profile, model: str, engine: Engine, nodes: int) -> Workload:
    requests = {"cpu": str(4 * engine.tp), "memory": f"{16 * engine.tp}Gi"}
    facts = load_model(model).facts
    if facts is not None and facts.weights_gb is not None:
        # Each pod's own copy of the weights.
        requests["ephemeral-storage"] = f"{2 + math.ceil(facts.weights_gb * 1e9 / 2**30)}Gi"
    container: Object = {"name": "worker", "resources": {"requests": requests}}
    pod: Object = {"containers": [container]}
    if profile.vendor == "cpu":
        requests = {"cpu": "1", "memory": "3Gi"}
        container["resources"]["requests"] = requests
        return Workload(f"worker-{model}", nodes, pod)
    resource = GPU_RESOURCES[profile.vendor]
    container["resources"]["limits"] = {resource: engine.tp}
    pod["tolerations"] = [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}]
    if products := PRODUCTS.get(profile.name):
        is_one = {"key": GPU_LABELS[profile.vendor], "operator": "In", "values": products}
        term = {"nodeSelectorTerms": [{"matchExpressions": [is_one]}]}
        pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    return Workload(f"worker-{model}", nodes * max(1, profile.gpus // engine.tp), pod)
