"""The rules of configs/prometheus: each alert fires and is silent when it should, and names what exists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from dllm_stack.outcomes import KINDS
from gateway.metrics import REQUEST_BUCKETS
from monitoring.rules import FOLDER, hurry, rule_files, rules
from tests.docs.pages import page, rows_of
from tests.docs.test_links import anchors

TESTS = sorted((Path(__file__).parent / "rules").glob("*.yml"))
ALERTS = [rule for rule in rules() if rule.is_alert]


def run(tool: str, *arguments: object) -> None:
    found = shutil.which(tool, path=f"{sys.prefix}/bin:{os.environ['PATH']}")
    if found is None:
        pytest.fail(f"there is no {tool}: run requirements/prometheus.sh {sys.prefix}")
    ended = subprocess.run([found, *map(str, arguments)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_prometheus_and_alertmanager_can_read_their_files() -> None:
    run("promtool", "check", "config", FOLDER / "prometheus.yml")
    run("amtool", "check-config", FOLDER / "alertmanager.yml")


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_alerts_fire_when_they_should_and_only_then(file: Path) -> None:
    run("promtool", "test", "rules", file)


def test_every_alert_is_tested_firing_and_not_firing() -> None:
    seen: dict[str, set[bool]] = defaultdict(set)
    for file in TESTS:
        for test in yaml.safe_load(file.read_text())["tests"]:
            for case in test["alert_rule_test"]:
                seen[case["alertname"]].add(bool(case["exp_alerts"]))
    assert seen == {rule.name: {True, False} for rule in ALERTS}


def test_every_alert_has_a_runbook() -> None:
    assert [rule.annotations["runbook"] for rule in ALERTS] == [
        f"docs/operations.md#{rule.name.lower()}" for rule in ALERTS
    ]
    missing = {rule.name for rule in ALERTS if rule.name.lower() not in anchors(page("operations.md"))}
    assert missing == set()


def test_every_runbook_has_an_alert() -> None:
    titles = re.findall(r"^### (Dllm\w+)$", page("operations.md"), re.MULTILINE)
    assert titles == [rule.name for rule in ALERTS]


def test_rules_name_metrics_that_there_are() -> None:
    exposed = {row[0].strip("`") for row in rows_of("metrics.md", "metric", "type")}
    recorded = {rule.name for rule in rules() if not rule.is_alert}
    for rule in rules():
        for name in re.findall(r"(?<![\w:])(?:\w+:dllm_[\w:]+|dllm_\w+)", rule.expr):
            metric = re.sub(r"_(bucket|sum|count)$", "", name)
            assert {name, metric} & (exposed | recorded), f"{rule.name}: {name}"


def test_failures_of_the_stack_are_those_that_http_calls_so() -> None:
    own = {str(code) for code, kind in KINDS.items() if kind.status >= 500}
    selectors = [
        re.search(r'code=~"([^"]+)"', rule.expr) for rule in rules() if "requests_failed" in rule.name
    ]
    named = [set(selector[1].split("|")) for selector in selectors if selector and selector[1].count("|")]
    assert named == [own] * 7


def test_what_counts_as_late_is_a_bound_of_the_histogram() -> None:
    bounds = {f'le="{float(bound)}"' for bound in REQUEST_BUCKETS}
    used = {bound for rule in rules() for bound in re.findall(r'le="[^"]+"', rule.expr)}
    assert used
    assert used <= bounds


def test_hurried_rules_say_the_same_sooner() -> None:
    def shape(text: str) -> list[Any]:
        return [
            [rule.get("alert") or rule["record"], re.sub(r"\d+[smhd]\b", "T", rule["expr"]), "for" in rule]
            for group in yaml.safe_load(text)["groups"]
            for rule in group["rules"]
        ]

    for file in rule_files():
        text = file.read_text()
        assert shape(hurry(text, 30)) == shape(text)
    text = 'groups: [{rules: [{alert: A, expr: "x:ratio_rate5m > rate(y[1h]) offset 5m", for: 10m}]}]'
    (rule,) = yaml.safe_load(hurry(text, 30))["groups"][0]["rules"]
    assert rule == {"alert": "A", "expr": "x:ratio_rate5m > rate(y[120s]) offset 10s", "for": "20s"}
