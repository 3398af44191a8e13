"""Renders that are kept in the repository, so that a change of the charts shows what it changes.

Three in full, and of every chart what its pools are, in a line each. What is the same as another file of the
repository, or differs each time, is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from deploy.charts.helm import Manifest
from deploy.charts.matrix import EVERYTHING, Case, cases
from deploy.charts.places import GOLDEN, HELM

IN_FULL = (
    Case("cpu-dev", HELM / "cpu-dev", {}),
    Case("h200-8x-everything", HELM / "h200-8x", EVERYTHING),
    Case("mi300x-8x", HELM / "mi300x-8x", {}),
)
_CHANGES = "(changes)"


def files() -> dict[Path, str]:
    """What there should be, by where."""
    whole = {GOLDEN / f"{case.name}.yaml": _text(case.manifests()) for case in IN_FULL}
    return whole | {GOLDEN / "pools.yaml": _pools()}


def _text(manifests: list[Manifest]) -> str:
    shown = [_shown(m) for m in sorted(manifests, key=lambda m: (m["kind"], m["metadata"]["name"]))]
    return yaml.dump_all(shown, Dumper=_Dumper, width=110)


def _shown(manifest: Manifest) -> Manifest:
    match manifest["kind"]:
        case "Secret":
            manifest["data" if "data" in manifest else "stringData"] = _CHANGES
        case "ConfigMap" if "-dashboard-" in manifest["metadata"]["name"]:
            manifest["data"] = dict.fromkeys(manifest["data"], "(configs/grafana)")
        case "PrometheusRule":
            manifest["spec"]["groups"] = [group["name"] for group in manifest["spec"]["groups"]]
        case "Pod":
            command = manifest["spec"]["containers"][0]["command"]
            command[command.index("-c") + 1] = "(files/test/stream_chat.py)"
        case "Job":
            manifest["metadata"]["name"] = manifest["metadata"]["name"].rpartition("-")[0] + "-(changes)"
    template = manifest.get("spec", {}).get("template", {}).get("metadata", {})
    for name in template.get("annotations", {}):
        if name.startswith("checksum/"):
            template["annotations"][name] = _CHANGES
    return manifest


def _pools() -> str:
    """Of every chart, and of its flash models: what decides whether its workers run."""
    lines = {
        f"{case.name}: {manifest['metadata']['name']}": _pool(manifest)
        for case in cases()
        if not case.values or "flash" in case.name
        for manifest in case.manifests()
        if manifest["kind"] == "Deployment" and "-worker-" in manifest["metadata"]["name"]
    }
    return yaml.dump(lines, Dumper=_Dumper, width=10_000, default_flow_style=None, sort_keys=False)


def _pool(deployment: Manifest) -> dict[str, Any]:
    pod = deployment["spec"]["template"]["spec"]
    (worker,) = pod["containers"]
    shm = next(volume["emptyDir"] for volume in pod["volumes"] if volume["name"] == "shm")
    affinity = pod.get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    return {
        "image": worker["image"],
        "workers": deployment["spec"]["replicas"],
        "nodes": {e["key"]: e["values"] for term in terms for e in term["matchExpressions"]},
        "resources": worker["resources"],
        "shm": shm["sizeLimit"],
        "start_s": worker["startupProbe"]["periodSeconds"] * worker["startupProbe"]["failureThreshold"],
        "stop_s": pod["terminationGracePeriodSeconds"],
        "fetches": [container["name"] for container in pod.get("initContainers", [])],
    }


class _Dumper(yaml.SafeDumper):
    """Text of several lines as such, and nothing by reference."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _string)
