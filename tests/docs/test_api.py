"""docs/api.md says of every parameter and every error what the gateway's tables say."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from dllm_stack.capabilities import DRAWING, Capability
from dllm_stack.decoding import ALGORITHMS, Parameters
from dllm_stack.outcomes import KINDS
from dllm_stack.settings import Settings
from gateway.app import create_app
from gateway.chat.protocol import MAX_MESSAGES
from gateway.chat.protocol import RULES as CHAT
from gateway.completions.protocol import DEFAULT_MAX_TOKENS
from gateway.completions.protocol import RULES as COMPLETIONS
from gateway.detokenize.protocol import RULES as DETOKENIZE
from gateway.feed import QUESTION_S, QUESTIONS_AT_ONCE
from gateway.fields.decoding import DLLM_SCHEMA
from gateway.fields.parameters import MAX_CHOICES, MAX_PROMPTS, MAX_STOP_CHARACTERS, MAX_STOPS
from gateway.fields.terms import HEADERS, MAX_SESSION_CHARACTERS
from gateway.fields.validation import Rules
from gateway.generate.protocol import DEFAULT_MAX_NEW_TOKENS, SAMPLING_RULES
from gateway.generate.protocol import RULES as GENERATE
from gateway.http.body import MAX_PARTS
from gateway.tokenize.protocol import RULES as TOKENIZE
from gateway.tools.protocol import MAX_BYTES, MAX_TOOLS
from tests.docs.pages import ROOT, assert_begin, assert_holds, code, rows_of, table
from worker.questions import MOST_CHARACTERS, STALE_S


def test_every_endpoint_is_listed() -> None:
    app = create_app(Settings())
    paths = {**app.openapi()["paths"], app.openapi_url: {"get": {}}}
    rows = {(method.upper(), code(path)) for path, methods in paths.items() for method in methods}
    listed = [tuple(row[:2]) for row in rows_of("api.md", "method", "path")]
    assert sorted(listed) == sorted(rows)


# What `decoding.choose` takes of an autoregressive model.
OF_DIFFUSION: dict[str, tuple[Any, ...]] = {"dllm": (), "custom_params": ({},)}


def verdict(rules: Rules[Any], name: str, *, autoregressive: bool = False) -> str:
    """Of a model that honours all that its kind can."""
    if name in rules.conditional and not autoregressive:
        return only(rules.conditional[name].values)
    if name in rules.honoured.model_fields and name in OF_DIFFUSION and autoregressive:
        return only(OF_DIFFUSION[name])
    if name in rules.honoured.model_fields:
        return "honoured"
    if name in rules.ignored:
        return "ignored"
    if name in rules.neutral:
        return only(rules.neutral[name].values)
    return "refused"


def only(values: tuple[Any, ...]) -> str:
    neutral = [msgspec.json.encode(value).decode() for value in values]
    return f"only {', '.join(map(code, neutral or ['null']))}"


def test_the_verdict_on_every_parameter() -> None:
    columns: dict[str, Rules[Any]] = {
        "/v1/chat/completions": CHAT,
        "/v1/completions": COMPLETIONS,
        "/generate": GENERATE,
        "sampling_params of it": SAMPLING_RULES,
    }
    names = {
        name
        for rules in columns.values()
        for name in (*rules.honoured.model_fields, *rules.neutral, *rules.ignored)
    }
    order = ["honoured", "only", "ignored"]
    verdicts = {
        name: [
            verdict(rules, name, autoregressive=autoregressive)
            for rules in columns.values()
            for autoregressive in (False, True)
        ]
        for name in names
    }

    def place(name: str) -> tuple[int, str]:
        kinds = {each.split()[0] for each in verdicts[name]}
        return min(order.index(kind) for kind in kinds & set(order)), name

    rows = [[code(name), *verdicts[name]] for name in sorted(names, key=place)]
    header = [title for column in map(code, columns) for title in (column, f"{column} autoregressive")]
    assert_holds("api.md", table(["parameter", *header], *rows))


def test_every_capability_is_of_a_parameter() -> None:
    asked = {
        str(conditional.capability)
        for rules in (CHAT, COMPLETIONS, GENERATE, SAMPLING_RULES)
        for conditional in rules.conditional.values()
    }
    assert asked | DRAWING | {Capability.STRICT} == set(Capability)  # the latter: of each tool
    assert_holds("api.md", f"{', '.join(code(each) for each in sorted(Capability))}")


def test_the_verdict_on_every_field_about_tokens() -> None:
    fields = [row[0].strip("`") for row in rows_of("api.md", "field", code("/tokenize"))]
    names = [
        name
        for rules in (TOKENIZE, DETOKENIZE)
        for name in (*rules.honoured.model_fields, *rules.neutral, *rules.ignored)
    ]
    assert sorted(fields) == sorted(set(names))
    for field, *row in rows_of("api.md", "field", code("/tokenize")):
        assert row[:2] == [verdict(rules, field.strip("`")) for rules in (TOKENIZE, DETOKENIZE)]


def test_every_honoured_parameter_is_described() -> None:
    honoured = {
        name
        for rules in (CHAT, COMPLETIONS, GENERATE, SAMPLING_RULES)
        for name in rules.honoured.model_fields
    }
    first_cells = " ".join(row[0] for row in rows_of("api.md", "honoured", "takes"))
    assert set(re.findall(r"`(\w+)`", first_cells)) == honoured


def test_every_decoding_parameter_is_listed() -> None:
    rows = []
    for name, schema in DLLM_SCHEMA["properties"].items():
        if name in Parameters.__struct_fields__:
            algorithms = [code(each) for each, takes in ALGORITHMS.items() if name in takes]
            kind = ", whole" if schema["type"] == "integer" else ""
            values = f"{schema['minimum']} to {schema['maximum']}{kind}"
            rows.append([code(name), values, ", ".join(algorithms)])
    assert_holds("api.md", table(["parameter", "range", "algorithms"], *rows))


def test_the_limits_of_the_api() -> None:
    assert_holds("api.md", f"{DEFAULT_MAX_TOKENS} for completions, {DEFAULT_MAX_NEW_TOKENS} for `/generate`")
    assert_holds("api.md", f"up to {MAX_STOPS} strings, each of 1 to {MAX_STOP_CHARACTERS} characters")
    assert_holds("api.md", f"| `messages` | 1 to {MAX_MESSAGES:,}. ")
    assert_holds("api.md", f"Any body has at most {MAX_PARTS:,} strings")
    assert_holds("api.md", f"up to {MAX_PROMPTS} prompts")
    assert_holds("api.md", f"1 to {MAX_CHOICES} [choices]")
    assert_holds("api.md", f"up to {MAX_TOOLS}, of type `function`")
    assert_holds("api.md", f"of all tools at most {MAX_BYTES:,} bytes")
    assert_holds("api.md", f"At most {MOST_CHARACTERS:,} characters in all")
    assert_holds("api.md", f"`gateway.keep_alive_s` ({Settings().gateway.keep_alive_s:g} s)")
    assert_holds("api.md", f"two keep silent for {QUESTION_S:g} s each")
    assert STALE_S == QUESTION_S
    assert_holds("architecture.md", f"A gateway has {QUESTIONS_AT_ONCE} open at a time for a model")


def test_every_header_is_described() -> None:
    cells = {row[1] for row in rows_of("api.md", "in the body", "as a header")} - {"none"}
    assert sorted(cells) == sorted(map(code, HEADERS))
    assert_holds("api.md", f"1 to {MAX_SESSION_CHARACTERS} characters")


def test_every_error_is_listed() -> None:
    assert_begin(
        "api.md",
        ["code", "status", "type", "outcome"],
        [
            [code(error), str(kind.status), code(kind.type), str(kind.outcome)]
            for error, kind in KINDS.items()
        ],
    )


def test_the_clients_that_were_tried_are_those_installed() -> None:
    pins = [
        line.rpartition("@" if path.suffix == ".npm" else "==")
        for path in (ROOT / "requirements" / "clients").iterdir()
        for line in path.read_text().split()
    ]
    listed = [(code(name), version) for name, _, version in pins if name != "zod"]  # the AI SDK's
    rows = [(row[0].partition(" ")[0], row[1]) for row in rows_of("api.md", "client", "version")]
    assert sorted(rows) == sorted(listed)
