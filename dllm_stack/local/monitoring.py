"""Prometheus over a stack on this machine, with its rules, an Alertmanager and an exporter for Redis."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dllm_stack.local.service import free_port
from dllm_stack.settings import CONFIGS

RULES = CONFIGS / "prometheus"
_NAMES = {  # the project's own, and Debian's
    "prometheus": ("prometheus",),
    "alertmanager": ("alertmanager", "prometheus-alertmanager"),
    "redis_exporter": ("redis_exporter", "prometheus-redis-exporter"),
}
_EXPORTED = ("redis://", "rediss://", "unix://")  # the exporter looks at one server


class NotInstalled(Exception):
    """Some of the programs are missing; the message names them."""


class Tool(NamedTuple):
    """
    Attributes:
        probe: answers 200 once it serves.
    """

    name: str
    argv: list[str]
    env: dict[str, str]
    url: str
    probe: str


def tools(
    folder: Path,
    targets: dict[str, list[str]],
    redis_url: str,
    *,
    port: int,
    rules: Path = RULES,
    every_s: int | None = None,
) -> list[Tool]:
    """What to start. Their files are in `folder`.

    Args:
        targets: host:port of the services, by the names of jobs: gateway, router, worker.
        port: of Prometheus; the others take free ones.
        rules: a folder with the files that prometheus.yml names.
        every_s: period of scrapes and evaluations, in place of prometheus.yml's.

    Raises:
        NotInstalled
    """
    found = find()
    exporter, alerts = free_port(), free_port()
    exports = redis_url.startswith(_EXPORTED)
    if exports:
        targets = targets | {"redis": [f"127.0.0.1:{exporter}"]}
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(_configuration(targets, f"127.0.0.1:{alerts}", rules, every_s)))
    prometheus = [
        *(found["prometheus"], f"--config.file={config}", f"--storage.tsdb.path={folder / 'prometheus'}"),
        *(f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"),
        "--enable-feature=exemplar-storage",  # which name traces
    ]
    alertmanager = [
        *(found["alertmanager"], f"--config.file={RULES / 'alertmanager.yml'}"),
        *(f"--storage.path={folder / 'alertmanager'}", f"--web.listen-address=127.0.0.1:{alerts}"),
        *("--cluster.listen-address=", "--log.level=warn"),
    ]
    chosen = [
        _tool("alertmanager", alertmanager, alerts, "/-/ready"),
        _tool("prometheus", prometheus, port, "/-/ready"),
    ]
    if exports:
        argv = [found["redis_exporter"], f"--web.listen-address=127.0.0.1:{exporter}", "--ping-on-connect"]
        # Not an argument: the URL may hold a password.
        chosen.insert(0, _tool("exporter", argv, exporter, "/health", REDIS_ADDR=redis_url))
    return chosen


def find() -> dict[str, str]:
    """Each program's path: beside Python's, or on PATH.

    Raises:
        NotInstalled
    """
    path = os.pathsep.join([f"{sys.prefix}/bin", os.environ.get("PATH", os.defpath)])
    found = {
        name: next(filter(None, (shutil.which(each, path=path) for each in names)), None)
        for name, names in _NAMES.items()
    }
    if missing := [name for name, binary in found.items() if binary is None]:
        raise NotInstalled(f"{', '.join(missing)}: not installed. `make monitoring` unpacks what is missing.")
    return {name: binary for name, binary in found.items() if binary is not None}


def _tool(name: str, argv: list[str], port: int, probe: str, **env: str) -> Tool:
    url = f"http://127.0.0.1:{port}"
    return Tool(name, argv, env, url, url + probe)


def _configuration(
    targets: dict[str, list[str]], alertmanager: str, rules: Path, every_s: int | None
) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((RULES / "prometheus.yml").read_text())
    if every_s is not None:
        config["global"] = {"scrape_interval": f"{every_s}s", "evaluation_interval": f"{every_s}s"}
    config["rule_files"] = [str(rules / name) for name in config["rule_files"]]
    config["alerting"]["alertmanagers"][0]["static_configs"] = [{"targets": [alertmanager]}]
    jobs = [job for job in config["scrape_configs"] if job["job_name"] in targets]
    for job in jobs:
        job["static_configs"] = [{"targets": targets[job["job_name"]]}]
    config["scrape_configs"] = jobs
    return config
