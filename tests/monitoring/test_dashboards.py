"""The dashboards of configs/grafana: what the generator gives, whole, and only about what exists."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest
import yaml

from dllm_stack.settings import CONFIGS
from monitoring.dashboards.all import DASHBOARDS, FOLDER, files
from monitoring.dashboards.model import WIDTH, Dashboard
from monitoring.dashboards.units import Unit
from monitoring.expressions import of_panels
from monitoring.rules import rules
from tests.docs.pages import rows_of

EACH = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)


def content(dashboard: Dashboard) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FOLDER / f"{dashboard.uid}.json").read_text())
    return loaded


def test_the_files_are_what_the_generator_gives() -> None:
    there = {file.name: file.read_text() for file in FOLDER.iterdir()}
    assert there == files(), "run: python -m monitoring.dashboards"


@EACH
def test_a_dashboard_is_whole(dashboard: Dashboard) -> None:
    loaded = content(dashboard)
    panels = loaded["panels"]
    assert [panel["id"] for panel in panels] == [*range(1, len(panels) + 1)]
    titles = [panel["title"] for panel in panels]
    assert len(set(titles)) == len(titles)
    uids = {each.uid for each in DASHBOARDS}
    for panel in panels:
        if panel["type"] == "row":
            continue
        defaults = panel["fieldConfig"]["defaults"]
        assert panel["description"]
        assert Unit(defaults["unit"])
        assert defaults["thresholds"]["steps"][0] == {"color": "green", "value": None}
        steps = [step["value"] for step in defaults["thresholds"]["steps"][1:]]
        assert steps == sorted(steps)
        assert panel["targets"]
        assert all(target["expr"] and target["legendFormat"] for target in panel["targets"])
        leads = [link["url"].partition("?")[0].removeprefix("/d/") for link in panel.get("links", [])]
        assert set(leads) <= uids - {dashboard.uid}


@EACH
def test_panels_do_not_overlap(dashboard: Dashboard) -> None:
    boxes = [panel["gridPos"] for panel in content(dashboard)["panels"]]
    assert all(box["x"] >= 0 and box["x"] + box["w"] <= WIDTH for box in boxes)
    for one, other in combinations(boxes, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below


@EACH
def test_every_variable_is_used_and_every_one_used_is_there(dashboard: Dashboard) -> None:
    loaded = content(dashboard)
    names = {variable["name"] for variable in loaded["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps([loaded["panels"], loaded["annotations"]])))
    assert used - {"__rate_interval", "__url_time_range"} == names - ({"pool"} - used)


def test_expressions_name_metrics_that_there_are() -> None:
    exposed = {row[0].strip("`") for row in rows_of("metrics.md", "metric", "type")}
    known = exposed | {rule.name for rule in rules() if not rule.is_alert}
    used: set[str] = set()
    for expression in of_panels("1m"):
        assert "$" not in expression.text, expression
        for name in re.findall(r"(?<![\w:])(?:\w+:dllm_[\w:]+|dllm_\w+)", expression.text):
            metric = re.sub(r"_(bucket|sum|count)$", "", name)
            assert {name, metric} & known, f"{expression.where}: {name}"
            used |= {name, metric}
    assert exposed - used - {"dllm_access_file_broken"} == set()  # an alert says that better


def test_provisioning_is_yaml_that_grafana_knows() -> None:
    for file in (CONFIGS / "grafana" / "provisioning").iterdir():
        loaded = yaml.safe_load(file.read_text())
        assert loaded["apiVersion"] == 1
        assert loaded.keys() & {"providers", "datasources"}
