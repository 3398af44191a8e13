"""What a value may be: said once, in values.yaml, and what there is no value for is refused by name."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest
import yaml

from deploy.charts import schema, settings, table, types, values
from deploy.charts.helm import HELMS
from deploy.charts.places import BASE, PAGE
from dllm_stack.settings import Settings
from tests.helm.conftest import Render, RenderError

TEMPLATES = sorted(BASE.glob("templates/**/*.*"))
VALUES = yaml.safe_load((BASE / "values.yaml").read_text())


def test_schemas_are_as_generated() -> None:
    for path, content in schema.files().items():
        assert path.read_text() == content, f"{path}: run `make charts`"


def test_the_page_has_every_value() -> None:
    assert PAGE.read_text() == table.page(), "docs/helm.md: run `make charts`"


@pytest.mark.parametrize("helm", HELMS)
def test_every_value_that_there_is_not_is_named(render: Render, helm: str) -> None:
    """At the top, in a group, in what a user names, in settings, in lists; and what the chart itself sets."""
    wrong = {
        "replicas": {"gateway": {"x": 1}},
        "dllm-stack": {
            "router": {"replcas": 2},
            "pools": {"mini": {"modle": "x", "engine": {"tpp": 1}, "worker": {"shmSize": 1}}},
            "config": {"queue": {"max_jobs": 1}, "redis": {"url": "redis://x"}},
            "gateway": {"tolerations": [{"kye": "x"}], "resources": {"limits": {"memroy": "1Gi"}}},
        },
    }
    with pytest.raises(RenderError) as refused:
        render("h200-8x", values=wrong, helm=helm)
    for name in ("replicas", "replcas", "modle", "tpp", "shmSize", "max_jobs", "url", "kye", "memroy"):
        assert re.search(rf"['\s]{name}\b", str(refused.value)), name


@pytest.mark.parametrize(
    ("set_", "field"),
    [
        ("gateway.replicas=0", "gateway/replicas"),
        ("gateway.replicas=two", "gateway/replicas"),
        ("keys.mode=on", "keys/mode"),
        ("image.pullPolicy=Sometimes", "image/pullPolicy"),
        ("pools.mini.engine.mem_fraction=1.5", "pools/mini/engine/mem_fraction"),
        ("worker.maxUnavailable=half", "worker/maxUnavailable"),
        ("worker.resources.limits.memory=lots", "worker/resources/limits/memory"),
        ("config.gateway.drain_s=-1", "config/gateway/drain_s"),
        ("keda.prometheusAddress=prometheus:9090", "keda/prometheusAddress"),
        ("monitoring.podMonitors.interval=15", "monitoring/podMonitors/interval"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_place(render: Render, set_: str, field: str) -> None:
    with pytest.raises(RenderError, match=f"at '/{field}'"):
        render("h200-8x", f"dllm-stack.{set_}")


def test_defaults_are_what_the_schema_allows() -> None:
    jsonschema.Draft7Validator.check_schema(schema.of_base())
    jsonschema.validate(VALUES, schema.of_base())


def test_all_settings_but_those_of_the_chart_may_be_given() -> None:
    given: dict[str, Any] = Settings().model_dump(mode="json")
    for owned in settings.OWNED:
        *groups, name = owned.split(".")
        place = given
        for group in groups:
            place = place[group]
        del place[name]
    jsonschema.validate(given, settings.schema())


def _leaves(node: dict[str, Any], path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    for key, value in node["properties"].items():
        below = isinstance(value, dict) and value.get("properties") and not value.get("description")
        found |= _leaves(value, (*path, key)) if below else {(*path, key)}
    return found


def test_templates_use_values_that_there_are() -> None:
    leaves = _leaves(schema.of_base())
    known = {path[:length] for path in leaves for length in range(1, len(path) + 1)}
    for file in TEMPLATES:
        for used in re.findall(r"\.Values\.([\w.]+)", file.read_text()):
            path = tuple(used.split("."))
            is_below = any(path[:length] in leaves for length in range(1, len(path)))
            assert path in known or is_below, f"{file.name}: .Values.{used}"


def test_every_value_is_used() -> None:
    """Its name, or its group's: where templates take a group by `with` or `get`, no more is to be seen."""
    text = "\n".join(file.read_text() for file in TEMPLATES)

    def is_used(path: tuple[str, ...]) -> bool:
        return f".{path[-1]}" in text or (len(path) > 2 and f".Values.{'.'.join(path[:-1])}" in text)

    assert [v.name for v in values.read((BASE / "values.yaml").read_text()) if not is_used(v.path)] == []


def test_comments_are_read_as_they_are_written() -> None:
    text = """\
# Not of a value.

# -- ([string!]) Names, which
# are many.
names: []
group:
  # -- A `size`.
  size: 3
  # -- (resources) Room.
  resources:
    requests: {cpu: 1}
other:
  # no words of its own
  size: 4
"""
    found = {value.name: (value.type, value.text, value.default) for value in values.read(text)}
    assert found == {
        "names": ("[string!]", "Names, which are many.", []),
        "group.size": (None, "A `size`.", 3),
        "group.resources": ("resources", "Room.", {"requests": {"cpu": 1}}),
        "other.size": (None, "A `size`.", 4),
    }


def test_a_value_without_a_word_about_it_is_an_error() -> None:
    with pytest.raises(values.ValuesError, match=r"line 2: group\.size has no comment"):
        values.read("group:\n  size: 3\n")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("int >= 1", {"type": "integer", "minimum": 1}),
        ("number > 0", {"type": "number", "exclusiveMinimum": 0}),
        ("1..100", {"type": "integer", "minimum": 1, "maximum": 100}),
        ("int?", {"type": ["integer", "null"], "minimum": 0}),
        ("a | b", {"type": "string", "enum": ["a", "b"]}),
        ("[string!]", {"type": "array", "items": {"type": "string", "minLength": 1}}),
        ("{bool}", {"type": "object", "additionalProperties": {"type": "boolean"}}),
    ],
)
def test_words_for_types(words: str, meant: dict[str, Any]) -> None:
    assert types.schema(words) == meant


@pytest.mark.parametrize("words", ["integer", "int < 3", "[thing]", ""])
def test_words_for_no_type(words: str) -> None:
    with pytest.raises(types.UnknownType):
        types.schema(words)
