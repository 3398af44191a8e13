"""Calls in a model's text: the same, however the text comes in pieces."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.tools.events import Arguments, Begin, Event, Text
from gateway.tools.tool_call_tags import MOST_FAILURES, ToolCallTags
from tests.gateway.tools.plain_reference import Read, read

NAMES = {"add", "get_weather"}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
# What calls are made of, whole and broken, and what is nearly that.
FRAGMENTS = [
    "<tool_call>",
    "</tool_call>",
    '{"name": "add", "arguments": ',
    '{"name": "get_weather", "arguments": ',
    '{"name": "unknown", "arguments": ',
    '{"name": "add"}',
    '{"arguments": {"a": 1}, "name": "add"}',
    '{"name": "add", "arguments": "{}"}',
    '{"name": ["add"]}',
    '{"a": "<tool_call>"}',
    '{"city": "</tool_call>"}',
    *'{}[]":,<\\',
    *" \n\t",
    "你好",
    "👩‍👩",
    "é",
    CALL,
    "text",
]
answers = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return [text[begin:end] for begin, end in pairwise(edges)]


def parse(pieces: list[str]) -> list[Event]:
    parser = ToolCallTags(NAMES)
    events = [event for piece in pieces for event in parser.push(piece)]
    return events + parser.finish()


def summed(events: list[Event]) -> Read:
    text, calls = "", []
    for event in events:
        match event:
            case Text(said):
                text += said
            case Begin(name):
                calls.append((name, ""))
            case Arguments(more):
                calls[-1] = calls[-1][0], calls[-1][1] + more
    return Read(text, calls)


@given(answers, st.lists(st.integers(min_value=0), max_size=12))
@example(f"a\n{CALL}\n{CALL}\n", [])
@example('<tool_call>{"name": "add", "arguments": {"a": "x\n</tool_call>', [40, 45])
def test_cut_anyhow_it_is_what_the_whole_is(answer: str, places: list[int]) -> None:
    assert summed(parse(cut(answer, places))) == read(answer, NAMES)


@given(answers)
def test_character_by_character(answer: str) -> None:
    assert summed(parse(list(answer))) == read(answer, NAMES)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
calls = st.tuples(st.sampled_from(sorted(NAMES)), st.dictionaries(st.text(max_size=8), values, max_size=3))
said = st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"]), max_size=12).map(str.strip)


@given(said, st.lists(calls, min_size=1, max_size=4), st.lists(st.integers(min_value=0), max_size=12))
def test_what_a_model_writes_as_the_template_does(
    text: str, wanted: list[tuple[str, dict[str, Any]]], places: list[int]
) -> None:
    answer = text
    for name, arguments in wanted:
        call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
        answer += f"\n<tool_call>\n{call}\n</tool_call>"
    found = summed(parse(cut(answer, places)))
    assert found.text == text
    assert [(name, json.loads(arguments)) for name, arguments in found.calls] == wanted


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("", Read("", [])),
        (" \n", Read(" \n", [])),
        ("1 < 2", Read("1 < 2", [])),
        (f"\n{CALL}", Read("", [("add", '{"a": 1}')])),
        (f"Well.\n{CALL}\n", Read("Well.", [("add", '{"a": 1}')])),
        (f"{CALL}\nDone. ", Read("\nDone. ", [("add", '{"a": 1}')])),
        (f"{CALL} {CALL}", Read("", [("add", '{"a": 1}')] * 2)),
        # No calls.
        ('<tool_call>{"name": "rm", "arguments": {}}</tool_call>', None),
        ('<tool_call>{"name": "add", "argum', None),
        ('<tool_call>{"name": "add", "arguments": ', None),
        ("<tool_call>\nnone\n</tool_call>", None),
        ("<tool_call>[]</tool_call>", None),
        ('<tool_call>{"name": "add", "arguments": 5}</tool_call>', None),
        ('<tool_call>{"arguments": {"a": "\\ud800"}, "name": "add"}</tool_call>', None),
        ("a <tool_cal", None),
        # A broken call does not hide the one behind it.
        (f"<tool_call>\n{CALL}", Read("<tool_call>", [("add", '{"a": 1}')])),
        # Other forms.
        ('<tool_call>{"name": "add"}</tool_call>', Read("", [("add", "{}")])),
        ('<tool_call>{"name": "add"}', Read("", [("add", "{}")])),
        (
            '<tool_call>{"arguments": {"a": "é"}, "name": "add"}</tool_call>',
            Read("", [("add", '{"a": "é"}')]),
        ),
        (
            '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1}"}</tool_call>',
            Read("", [("add", '{"a": 1}')]),
        ),
        (
            '<tool_call>{"name": "add", "arguments": {}, "id": 7}</tool_call>x',
            Read("x", [("add", "{}")]),
        ),
        # A tag that is missing, or in a string; an object that is cut, or closed once too often.
        ('<tool_call>{"name": "add", "arguments": {"a": 1}}\nSo.', Read("\nSo.", [("add", '{"a": 1}')])),
        (
            '<tool_call>{"name": "add", "arguments": {"a": "</tool_call>"}}</tool_call>',
            Read("", [("add", '{"a": "</tool_call>"}')]),
        ),
        ('<tool_call>{"name": "add", "arguments": {"a": "x', Read("", [("add", '{"a": "x')])),
        ('<tool_call>{"name": "add", "arguments": {"a": 1</tool_call>b', Read("b", [("add", '{"a": 1')])),
        ('<tool_call>{"name": "add", "arguments": {}}}\n</tool_call>', Read("", [("add", "{}")])),
        # A line break inside a string.
        (
            '<tool_call>{"name": "add", "arguments": {"code": "a\n\tb"}}</tool_call>',
            Read("", [("add", '{"code": "a\\n\\tb"}')]),
        ),
        (
            '<tool_call>{"name": "add", "arguments": {"code": "a\n</tool_call>b',
            Read("b", [("add", '{"code": "a\\n')]),
        ),
    ],
)
def test_cases(answer: str, expected: Read | None) -> None:
    assert summed(parse([answer])) == (expected or Read(answer, []))
    assert summed(parse(list(answer))) == (expected or Read(answer, []))


def test_an_answer_full_of_broken_calls_is_text_in_the_end() -> None:
    broken = '<tool_call>{"a":' * (MOST_FAILURES - 1)
    assert summed(parse([broken + CALL])) == Read(broken, [("add", '{"a": 1}')])
    broken += "<tool_call>{}"
    assert summed(parse([broken + CALL])) == Read(broken + CALL, [])
    assert summed(parse(list(broken + CALL))) == Read(broken + CALL, [])


def test_nothing_certain_is_held_back() -> None:
    parser = ToolCallTags(NAMES)
    assert parser.push("I look it up. ") == [Text("I look it up.")]
    assert parser.push('\n<tool_call>\n{"name": "add", "argu') == []
    assert parser.push('ments": {"a": [1, ') == [Begin("add"), Arguments('{"a": [1, ')]
    assert parser.push("2") == [Arguments("2")]
    assert parser.push("]}}\n</tool") == [Arguments("]}")]
    assert parser.push("_call> and 1 <") == [Text(" and 1")]
    assert parser.push(" 2") == [Text(" < 2")]
    assert parser.finish() == []
