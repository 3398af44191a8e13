"""A plain check of the PromQL in the documentation: its words, its brackets, its labels, its rates.

It knows the little that the documentation uses; what it does not know it refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_FUNCTIONS = {"sum", "max", "min", "avg", "rate", "increase", "histogram_quantile", "clamp_min", "time"}
_KEYWORDS = {"by", "or", "and", "unless"}
_RATES = {"rate", "increase"}
_BUILT_IN_LABELS = {"le", "job", "instance"}
_TOKEN = re.compile(
    r"""\s*(?: (?P<name>[a-zA-Z_][a-zA-Z0-9_]*) | (?P<string>"[^"]*") | (?P<range>\[\d+[smhd]\])
    | (?P<number>\d+(?:\.\d+)?) | (?P<symbol>[(){},]|[=!]~|[!=<>]=|[-+*/<>=]) )""",
    re.VERBOSE,
)
_PAIRS = {")": "(", "}": "{"}


class Metric(NamedTuple):
    type: str
    labels: tuple[str, ...]


def series(metrics: dict[str, Metric]) -> dict[str, Metric]:
    """What a query may name: a histogram is three series."""
    found: dict[str, Metric] = {}
    for name, metric in metrics.items():
        if metric.type == "histogram":
            found |= {f"{name}_{suffix}": metric for suffix in ("bucket", "sum", "count")}
        else:
            found[name] = metric
    return found


def check(query: str, metrics: dict[str, Metric]) -> set[str]:
    """The names of the series in a query.

    Raises:
        ValueError: the query cannot be right.
    """
    tokens = [*_tokens(query)]
    known = series(metrics)
    used = {word for kind, word in tokens if kind == "name" and word in known}
    labels = {label for name in used for label in known[name].labels} | _BUILT_IN_LABELS
    if not used:
        raise ValueError("no metric")
    _check_brackets([word for kind, word in tokens if kind == "symbol"])
    if sum(kind == "range" for kind, _ in tokens) != sum(word in _RATES for _, word in tokens):
        raise ValueError("a rate without a range, or a range without a rate")
    for i, (kind, word) in enumerate(tokens):
        follower = tokens[i + 1][1] if i + 1 < len(tokens) else ""
        if kind == "name" and word not in {*known, *labels, *_FUNCTIONS, *_KEYWORDS}:
            raise ValueError(f"{word}: no metric, label or function")
        if kind == "name" and word in _FUNCTIONS and follower not in ("(", "by"):
            raise ValueError(f"{word}: not called")
        caller = tokens[i - 2][1] if i > 1 else ""
        if word in used and (known[word].type != "gauge") != (caller in _RATES):
            raise ValueError(f"{word} is a {known[word].type}")
    if "histogram_quantile" in query and not re.search(r"by \([^)]*\ble\b", query):
        raise ValueError("histogram_quantile without le")
    return used


def _tokens(query: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(query.rstrip()):
        match = _TOKEN.match(query, at)
        if match is None or match.lastgroup is None:
            raise ValueError(f"cannot be read: {query[at:]}")
        yield match.lastgroup, match[match.lastgroup]
        at = match.end()


def _check_brackets(symbols: list[str]) -> None:
    opened = []
    for symbol in symbols:
        if symbol in "({":
            opened.append(symbol)
        elif symbol in _PAIRS and (not opened or opened.pop() != _PAIRS[symbol]):
            raise ValueError(f"unbalanced {symbol}")
    if opened:
        raise ValueError(f"unbalanced {opened[-1]}")
