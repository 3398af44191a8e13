"""Charts with values of many kinds, which all have to render, validate and be as safe as the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from deploy.charts import helm
from deploy.charts.helm import Manifest
from deploy.charts.places import BASE, HELM, thin_charts

Values = dict[str, Any]

_COMMIT = "0123456789abcdef0123456789abcdef01234567"  # of no checkpoint: only its form is looked at

# All that can be turned on beside one another.
EVERYTHING: Values = {
    "pools": {
        "mini": {
            "model": "llada2.1-mini",
            "nodes": 2,
            "scaling": {"min": 0, "max": 16, "oldestAgeS": 10},
        },
        "large": {
            "model": "gpt-oss-120b",
            "engine": {"max_running_requests": 48, "args": ["--context-length", "8192"]},
            "worker": {"priorityClassName": "batch", "resources": {"requests": {"memory": "100Gi"}}},
        },
    },
    "config": {
        "queue": {"cold_start_s": 900, "tenants": {"acme": {"weight": 2}}},
        "gateway": {"request_timeout_s": 1200, "drain_s": 60},
        "tracing": {"endpoint": "http://collector.tracing:4318", "sample": 0.1},
    },
    "podLabels": {"team": "serving"},
    "podAnnotations": {"example.com/owner": "serving"},
    "image": {"registry": "registry.example/ai", "pullSecrets": ["registry"]},
    "gateway": {
        "zones": 3,
        "autoscaling": {"enabled": True, "min": 3, "max": 12},
        "ingress": {"enabled": True, "className": "nginx", "host": "ai.example", "tlsSecret": "ai-tls"},
        "route": {
            "enabled": True,
            "parentRefs": [{"name": "edge", "namespace": "infra"}],
            "hostnames": ["ai.example"],
        },
        "priorityClassName": "serving",
        "extraEnv": [{"name": "SSL_CERT_FILE", "value": "/etc/ca/ca.crt"}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
        "tolerations": [{"key": "cpu", "operator": "Exists"}],
        "nodeSelector": {"pool": "cpu"},
    },
    "worker": {
        "runtimeClassName": "nvidia",
        "supplementalGroups": [44],
        "tolerations": [{"operator": "Exists"}],
    },
    "redis": {
        "mode": "external",
        "external": {"secret": {"name": "redis"}, "caSecret": {"name": "redis-ca"}},
    },
    "keys": {"mode": "redis"},
    "weights": {"volume": {"pvc": {"size": "500Gi", "className": "shared"}}, "hubSecret": {"name": "hub"}},
    "monitoring": {
        "podMonitors": {"enabled": True, "labels": {"release": "prometheus"}},
        "rules": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboards": {"enabled": True, "annotations": {"grafana_folder": "dllm-stack"}},
    },
    "keda": {"enabled": True},
    "networkPolicy": {
        "gatewayFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
        "adminFrom": [{"podSelector": {"matchLabels": {"app": "console"}}}],
    },
}

# Each turns one thing another way.
VARIANTS: dict[str, Values] = {
    "keys-in-redis": {"keys": {"mode": "redis"}},
    "keys-in-a-file": {
        "keys": {"mode": "file", "secret": {"name": "keys"}},
        "test": {"keySecret": {"name": "key"}},
    },
    "no-admin-service": {"keys": {"mode": "redis", "admin": False}},
    "redis-url": {
        "redis": {"mode": "external", "external": {"url": "rediss+sentinel://a:26379,b:26379/main"}}
    },
    "redis-password": {"redis": {"trial": {"passwordSecret": {"name": "redis"}}}},
    "redis-in-memory": {"redis": {"trial": {"storage": {"size": ""}}}},
    "weights-claim": {"weights": {"volume": {"pvc": {"claimName": "weights"}}}},
    "weights-on-nodes": {"weights": {"volume": {"hostPath": "/var/lib/weights"}}},
    "weights-image": {"weights": {"volume": {"image": "registry.example/weights:1"}}},
    "weights-there-already": {"weights": {"download": False, "volume": {"pvc": {"claimName": "weights"}}}},
    "open-network": {"networkPolicy": {"enabled": False}},
    "no-playground": {
        "config": {"gateway": {"playground": False}},
        "gateway": {"ingress": {"enabled": True}},
    },
    "one-of-each": {"gateway": {"replicas": 1}, "router": {"replicas": 1}},
    "load-balancer": {"gateway": {"service": {"type": "LoadBalancer", "annotations": {"a.example/b": "c"}}}},
}

_SINCE = {"weights-image": "1.33"}

_FLASH: Values = {"pools": {"mini": None, "flash": {"model": "llada2.1-flash", "revision": _COMMIT}}}


class Case(NamedTuple):
    """
    Attributes:
        values: of the base chart, also where the chart is a thin one.
        since: the first Kubernetes that takes it; None: all that the charts are for.
    """

    name: str
    chart: Path
    values: Values
    since: str | None = None

    def given(self) -> str | None:
        """As a values file for the chart."""
        if not self.values:
            return None
        return json.dumps(self.values if self.chart == BASE else {BASE.name: self.values})

    def words(self) -> set[str]:
        """All text in the values, such as the names of Secrets."""
        return set(_words(self.values))

    def manifests(self, which: str = "helm") -> list[Manifest]:
        """
        Raises:
            helm.HelmError: it does not render.
        """
        return helm.manifests(helm.template(self.chart, values=self.given(), helm=which))


def cases() -> list[Case]:
    """Every chart as it is, with everything on, with flash where that fits; two of them in every variant."""
    found = []
    for chart in thin_charts():
        found.append(Case(chart.name, chart, {}))
        models = yaml.safe_load((BASE / "files" / "profiles" / f"{chart.name}.yaml").read_text())["models"]
        if "llada2.1-flash" in models:
            found.append(Case(f"{chart.name}: flash", chart, _FLASH))
        if "gpt-oss-120b" in models:
            found.append(Case(f"{chart.name}: everything", chart, EVERYTHING))
    for name, values in VARIANTS.items():
        for chart in (HELM / "cpu-dev", HELM / "h200-8x"):
            found.append(Case(f"{chart.name}: {name}", chart, values, _SINCE.get(name)))
    return found


def _words(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for below in node.values() if isinstance(node, dict) else node:
            yield from _words(below)
