"""What a dashboard is made of, and its JSON as Grafana imports it (schema 39: Grafana 11, and later ones)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from monitoring.dashboards.units import Unit

Kind = Literal["timeseries", "stat", "heatmap"]
Json = dict[str, Any]

TAG = "dllm-stack"
WIDTH = 24  # of Grafana's grid
_SCHEMA = 39
_SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
_HEIGHT: dict[Kind, int] = {"timeseries": 8, "stat": 4, "heatmap": 8}
GREEN, ORANGE, RED = "green", "orange", "red"
NEEDS_DECODER = "an engine with dllm-stack's own decoder"
NEEDS_GPU = "a GPU, and dcgm-exporter for what is GPUs' own"


@dataclass(frozen=True)
class Query:
    """
    Attributes:
        expr: PromQL. `$pool` is a regular expression of models, `$__rate_interval` Grafana's.
        legend: as `{{label}}`.
    """

    expr: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """
    Attributes:
        about: what it tells, and what to think of it.
        levels: from which value on which colour; below the first, green.
        width: of 24.
        leads_to: uid of the dashboard that tells more.
        needs: what there has to be for its queries to return anything; empty: a stack under load.
    """

    title: str
    about: str
    unit: Unit
    queries: tuple[Query, ...]
    kind: Kind = "timeseries"
    levels: tuple[tuple[float, str], ...] = ()
    width: int = 8
    stacked: bool = False
    most: float | None = None
    leads_to: str = ""
    needs: str = ""

    def json(self, id: int, x: int, y: int) -> Json:
        defaults: Json = {
            "unit": self.unit,
            "min": 0,
            "thresholds": {
                "mode": "absolute",
                "steps": [{"color": GREEN, "value": None}]
                + [{"color": color, "value": value} for value, color in self.levels],
            },
        }
        if self.most is not None:
            defaults["max"] = self.most
        if self.kind == "timeseries":
            defaults["custom"] = {
                "fillOpacity": 30 if self.stacked else 0,
                "stacking": {"mode": "normal" if self.stacked else "none", "group": "A"},
                "thresholdsStyle": {"mode": "dashed" if self.levels else "off"},
                "showPoints": "never",
            }
        panel: Json = {
            "id": id,
            "type": self.kind,
            "title": self.title,
            "description": self.about + (f" Needs {self.needs}." if self.needs else ""),
            "datasource": _SOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": _HEIGHT[self.kind]},
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "options": _options(self.kind, self.unit),
            "targets": [
                self._target(query, chr(ord("A") + place)) for place, query in enumerate(self.queries)
            ],
        }
        if self.leads_to:
            url = f"/d/{self.leads_to}?${{__url_time_range}}&${{datasource:queryparam}}&${{pool:queryparam}}"
            panel["links"] = [{"title": "More", "url": url, "targetBlank": False}]
        return panel

    def _target(self, query: Query, reference: str) -> Json:
        heatmap = {"format": "heatmap"} if self.kind == "heatmap" else {}
        # Of histograms Prometheus keeps exemplars, which name traces.
        exemplar = {"exemplar": True} if self.kind == "timeseries" and "_bucket" in query.expr else {}
        return {
            "refId": reference,
            "datasource": _SOURCE,
            "expr": query.expr,
            "legendFormat": query.legend,
            "range": True,
            "instant": False,
            **heatmap,
            **exemplar,
        }


def _options(kind: Kind, unit: Unit) -> Json:
    if kind == "stat":
        return {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "area",
            "textMode": "auto",
        }
    if kind == "heatmap":
        return {
            "calculate": False,
            "cellGap": 1,
            "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
            "yAxis": {"axisPlacement": "left", "unit": unit},
            "tooltip": {"mode": "single", "showColorScale": False, "yHistogram": False},
            "legend": {"show": False},
        }
    return {
        "legend": {
            "displayMode": "table",
            "placement": "bottom",
            "showLegend": True,
            "calcs": ["lastNotNull", "max"],
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }


@dataclass(frozen=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    uid: str
    title: str
    about: str
    rows: tuple[Row, ...]
    variables: tuple[Json, ...] = field(default=())

    @property
    def panels(self) -> Iterator[Panel]:
        for row in self.rows:
            yield from row.panels

    def json(self) -> Json:
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.about,
            "tags": [TAG],
            "schemaVersion": _SCHEMA,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "timezone": "browser",
            "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": [_DATASOURCE, POOL, *self.variables]},
            "annotations": {"list": [_ALERTS]},
            "links": [_OTHERS],
            "panels": [*self._laid_out()],
        }

    def _laid_out(self) -> Iterator[Json]:
        id, y = 1, 0
        for row in self.rows:
            yield {
                "id": id,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
                "panels": [],
            }
            id, x, y, height = id + 1, 0, y + 1, 0
            for panel in row.panels:
                if x + panel.width > WIDTH:
                    x, y, height = 0, y + height, 0
                yield panel.json(id, x, y)
                id, x, height = id + 1, x + panel.width, max(height, _HEIGHT[panel.kind])
            y += height


_DATASOURCE: Json = {
    "name": "datasource",
    "label": "Prometheus",
    "type": "datasource",
    "query": "prometheus",
    "current": {},
    "hide": 0,
    "multi": False,
    "includeAll": False,
}
_OTHERS: Json = {
    "title": "dllm-stack",
    "type": "dashboards",
    "tags": [TAG],
    "asDropdown": False,
    "includeVars": True,
    "keepTime": True,
    "targetBlank": False,
}
_ALERTS: Json = {
    "name": "Alerts",
    "datasource": _SOURCE,
    "enable": True,
    "hide": False,
    "iconColor": RED,
    "expr": 'ALERTS{alertname=~"Dllm.*", alertstate="firing"}',
    "titleFormat": "{{alertname}}",
    "textFormat": "{{model}}{{pool}} {{instance}}",
    "step": "30s",
}


def text_box(name: str, label: str, about: str, default: str) -> Json:
    """A variable that its reader types in."""
    value = {"text": default, "value": default}
    return {
        "name": name,
        "label": label,
        "description": about,
        "type": "textbox",
        "query": default,
        "current": value,
        "options": [value | {"selected": True}],
        "hide": 0,
    }


def labels(name: str, title: str, about: str, metric: str) -> Json:
    """A variable that is any of the values which the label of this name has in a metric."""
    query = f"label_values({metric}, {name})"
    return {
        "name": name,
        "label": title,
        "description": about,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
        "hide": 0,
    }


POOL = labels("pool", "Model", "A pool is called after its model.", "dllm_pool_slots")
