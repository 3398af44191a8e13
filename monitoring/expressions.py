"""Every expression of a panel or a rule, as Prometheus is asked it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from monitoring.dashboards.all import DASHBOARDS
from monitoring.rules import rules


class Expression(NamedTuple):
    """
    Attributes:
        where: it is written, for people.
        text: PromQL without variables.
        needs: what there has to be for it to return anything; empty: a stack under load.
    """

    where: str
    text: str
    needs: str


def of_panels(rate_interval: str) -> Iterator[Expression]:
    """
    Args:
        rate_interval: in Grafana's place; it takes four times the period of scrapes.
    """
    for dashboard in DASHBOARDS:
        values = {"$__rate_interval": rate_interval, "$pool": ".*", "$price": "4"}
        for panel in dashboard.panels:
            for place, query in enumerate(panel.queries):
                text = query.expr
                for variable, value in values.items():
                    text = text.replace(variable, value)
                yield Expression(f"{dashboard.uid}: {panel.title} [{place}]", text, panel.needs)


def of_rules() -> Iterator[Expression]:
    """An alert's returns nothing as long as all is well: what matters is that Prometheus can evaluate it."""
    for rule in rules():
        needs = "something to be wrong" if rule.is_alert else ""
        yield Expression(f"{rule.file}: {rule.name}", rule.expr, needs)
