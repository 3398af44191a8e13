"""Label and field selectors of a list or a watch."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.helm.fake_kube_api.kinds import Object

Selects = Callable[[Object], bool]

_IN = re.compile(r"(?P<key>\S+)\s+(?P<not>notin|in)\s+\((?P<values>[^)]*)\)")
# A comma between the values of a set separates no terms.
_COMMA = re.compile(r",(?![^(]*\))")


def selector(labels: str, fields: str) -> Selects:
    terms = [*map(_label, _terms(labels)), *map(_field, _terms(fields))]
    return lambda item: all(term(item) for term in terms)


def _terms(text: str) -> list[str]:
    return [term.strip() for term in _COMMA.split(text) if term.strip()]


def _label(term: str) -> Selects:
    if match := _IN.fullmatch(term):
        values = {value.strip() for value in match["values"].split(",")}
        inside = match["not"] == "in"
        return lambda item: (_labels(item).get(match["key"]) in values) == inside
    if "!=" in term:
        key, value = term.split("!=", 1)
        return lambda item: _labels(item).get(key) != value
    if "=" in term:
        key, value = term.replace("==", "=").split("=", 1)
        return lambda item: _labels(item).get(key) == value
    if term.startswith("!"):
        return lambda item: term[1:] not in _labels(item)
    return lambda item: term in _labels(item)


def _labels(item: Object) -> dict[str, str]:
    labels: dict[str, str] = item["metadata"].get("labels") or {}
    return labels


def _field(term: str) -> Selects:
    equal = "!=" not in term
    path, value = term.replace("!=", "=").replace("==", "=").split("=", 1)

    def selects(item: Object) -> bool:
        found: object = item
        for step in path.split("."):
            found = found.get(step) if isinstance(found, dict) else None
        return (("" if found is None else str(found)) == value) == equal

    return selects
