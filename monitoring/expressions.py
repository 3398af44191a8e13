"""Every expression of a panel or a rule, as Prometheus is asked it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from monitoring.dashboards.all import DASHBOARDS
from monitoring.dashboards.model import NEEDS_DECODER
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
        values = {"$__rate_interval": rate_interval, "$pool": ".*", "$profile": ".*", "$price": "4"}
        for panel in dashboard.panels:
            for place, query in enumerate(panel.queries):
                text = query.expr
                for variable, value in values.items():
                    text = text.replace(variable, value)
                yield Expression(f"{dashboard.uid}: {panel.title} [{place}]", text, panel.needs)


def of_rules() -> Iterator[Expression]:
    """Those that are recorded, and of alerts the series that they look at.

    As long as all is well, an alert's own expression returns nothing.
    """
    for rule in rules():
        texts = [rule.expr]
        if rule.is_alert:
            texts = [_with_any_value(selector) for selector in dict.fromkeys(_SELECTOR.findall(rule.expr))]
        for text in texts:
            of_decoder = "dllm_engine_forwards" in text or "tokens_per_forward" in text
            yield Expression(f"{rule.file}: {rule.name}", text, NEEDS_DECODER if of_decoder else "")


# A metric, and its matchers if there are any.
_SELECTOR = re.compile(r"(?<![\w:])((?:\w+:dllm_[\w:]+|(?:dllm|redis)_\w+|up)(?![\w(])(?:\{[^}]*\})?)")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"[^"]*"')


def _with_any_value(selector: str) -> str:
    """The same series, whatever their labels say, as long as they have them."""
    return _MATCHER.sub(r'\1!=""', selector)
