"""`dllm-stack up --with-monitoring`: what Prometheus, Alertmanager and exporter are told; that they run."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from dllm_stack.local import monitoring, stack
from dllm_stack.local.service import free_port, listen
from dllm_stack.settings import GatewaySettings, RouterSettings, Settings, UpSettings, WorkerSettings
from loadtest.local_stack import LocalStack

TARGETS = {"gateway": ["127.0.0.1:1"], "router": ["127.0.0.1:2"], "worker": ["127.0.0.1:3", "127.0.0.1:4"]}


def eventually(condition: Callable[[], bool], within_s: float = 120.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_prometheus_scrapes_every_service_with_rules_and_alerts() -> None:
    settings = {"DLLM_UP__MONITORING": "true", "DLLM_UP__PROMETHEUS_PORT": "0"}
    no_engine = {"DLLM_WORKER__ENGINE_URL": "http://127.0.0.1:1"}
    with LocalStack(until="prometheus ready", **settings, **no_engine) as up:
        found = re.search(r"prometheus +ready +(\S+)", up.output())
        assert found is not None

        def api(path: str) -> Any:
            with urlopen(f"{found[1]}/api/v1/{path}", timeout=60) as response:
                return json.load(response)["data"]

        def healthy() -> dict[str, str]:
            targets = api("targets")["activeTargets"]
            return {target["labels"]["job"]: target["health"] for target in targets}

        everything = dict.fromkeys(("gateway", "router", "worker", "redis"), "up")
        eventually(lambda: healthy() == everything)
        assert sum(len(group["rules"]) for group in api("rules")["groups"]) > 40
        eventually(lambda: len(api("alertmanagers")["activeAlertmanagers"]) == 1)
        eventually(lambda: [each["value"][1] for each in api("query?query=redis_up")["result"]] == ["1"])
        assert up.stop() == 0
        assert re.findall(r"^(\w+) +stopped", up.output(), re.MULTILINE) == [
            *("prometheus", "alertmanager", "exporter"),
            *("gateway", "worker", "router", "valkey"),
        ]


def configuration(folder: Path, redis_url: str, **more: Any) -> tuple[list[monitoring.Tool], dict[str, Any]]:
    tools = monitoring.tools(folder, TARGETS, redis_url, port=9090, **more)
    return tools, yaml.safe_load((folder / "prometheus.yml").read_text())


def test_addresses_take_the_place_of_those_in_the_file(tmp_path: Path) -> None:
    tools, config = configuration(tmp_path, "redis://:secret@127.0.0.1:6379/0", every_s=2)
    jobs = {job["job_name"]: job["static_configs"][0]["targets"] for job in config["scrape_configs"]}
    [exporter] = jobs.pop("redis")
    assert jobs == TARGETS
    assert f"http://{exporter}" == tools[0].url
    assert "secret" not in str([tool.argv for tool in tools])
    assert tools[0].env == {"REDIS_ADDR": "redis://:secret@127.0.0.1:6379/0"}
    assert all(Path(file).exists() for file in config["rule_files"])
    assert config["global"] == {"scrape_interval": "2s", "evaluation_interval": "2s"}


def test_sentinels_and_clusters_have_no_exporter(tmp_path: Path) -> None:
    tools, config = configuration(tmp_path, "redis+sentinel://127.0.0.1:26379/main")
    assert [tool.name for tool in tools] == ["alertmanager", "prometheus"]
    assert "redis" not in {job["job_name"] for job in config["scrape_configs"]}


def run_up(prometheus_port: int) -> int:
    return stack.run(
        Settings(
            gateway=GatewaySettings(port=0),
            router=RouterSettings(port=0),
            worker=WorkerSettings(port=0),
            up=UpSettings(monitoring=True, prometheus_port=prometheus_port),
        )
    )


def test_what_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "prometheus").write_text("#!/bin/sh\n")
    (tmp_path / "prometheus").chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_up(0) == 1
    assert "alertmanager, redis_exporter: not installed. `make monitoring`" in capsys.readouterr().out


def test_a_taken_port_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    with listen("127.0.0.1", port):
        assert run_up(port) == 1
    output = capsys.readouterr().out
    assert f"The prometheus cannot listen on 127.0.0.1:{port}: Address already in use." in output
    assert "DLLM_UP__PROMETHEUS_PORT sets another port." in output
