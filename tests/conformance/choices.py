"""Several choices, calls of tools, token ids, and what a stream says while it waits."""

from __future__ import annotations

import json
from typing import Any

from tests.conformance.case import SAME, TOKENS, Answers, Refused, changes
from tests.conformance.checks import Check, streams
from tests.conformance.samples import WEATHER
from tests.conformance.seen import Seen
from tests.conformance.table import CHAT, COMPLETIONS

OPENAI = (CHAT, COMPLETIONS)
INVALID, UNSUPPORTED = "invalid_value", "unsupported_parameter"


def _user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _tool(name: str, description: str, /, **parameters: str) -> dict[str, Any]:
    properties = {parameter: {"type": kind} for parameter, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


ADD = _tool("add", "Adds two numbers", a="integer", b="integer")
MESSAGE = _tool("send_message", "Sends a message to a person", name="string", text="string")
_ASKED = {"messages": [_user("What is the weather in Paris?")], "max_tokens": 100}
_FUNCTION = {"type": "function", "function": {"name": "get_weather"}}
_REPORT = [
    _user("What is the weather in Paris?"),
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": '{"weather": "sunny", "degrees": 21}'},
]


# What the model is so unsure of that no two answers are alike.
_DRAWN = {"temperature": 2, "dllm": {"threshold": 0.99}}
_UNSURE: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [_user("What is 487 + 96 * 7?")]},
    COMPLETIONS: {"prompt": "The Great Wall"},
}


def _says(check: Check, *, varies: bool = False) -> Answers:
    return Answers(check=check, varies=varies)


def has_equal_choices(count: int) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        assert [choice.text for choice in seen.choices] == [usual.text] * count
        assert [choice.finish for choice in seen.choices] == [usual.finish] * count
        assert seen.tokens == TOKENS * count

    return check


def has_choices_of_their_own(count: int) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        assert len(seen.choices) == count
        assert len({choice.text for choice in seen.choices}) > 1

    return check


def calls(name: str, /, **arguments: Any) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        (choice,) = seen.choices
        (call,) = choice.tool_calls
        assert call["id"]
        assert call["type"] == "function"
        assert call["function"]["name"] == name
        assert json.loads(call["function"]["arguments"]) == arguments
        assert choice.finish == "tool_calls"
        assert choice.role == "assistant"
        assert "<tool_call>" not in choice.text

    return check


def calls_nothing(seen: Seen, usual: Seen) -> None:
    assert seen.choices[0].tool_calls == []
    assert seen.finish in ("stop", "length")


def reports(seen: Seen, usual: Seen) -> None:
    assert seen.text == "It is sunny in Paris, 21 degrees."
    assert seen.finish == "stop"


def tells_ids(seen: Seen, usual: Seen) -> None:
    assert seen.text == usual.text
    assert len(seen.choices[0].token_ids) == seen.tokens == TOKENS


SEVERAL = [
    case
    for path in OPENAI
    for case in [
        *changes(
            path,
            "n",
            ({"n": 1}, SAME),
            ({"n": 2}, _says(has_equal_choices(2))),
            ({"n": 5, **_DRAWN, **_UNSURE[path], "seed": 7}, _says(has_choices_of_their_own(5))),
            ({"n": 5, **_DRAWN, **_UNSURE[path]}, _says(has_choices_of_their_own(5), varies=True)),
            ({"n": 0}, Refused(INVALID, "n")),
            ({"n": 129}, Refused(INVALID, "n")),
            ({"n": True}, Refused(INVALID, "n")),
        ),
        *changes(
            path,
            "return_token_ids",
            ({"return_token_ids": True}, _says(tells_ids)),
            ({"return_token_ids": False}, SAME),
            ({"return_token_ids": 1}, Refused(INVALID, "return_token_ids")),
        ),
        *changes(
            path,
            "stream_options",
            ({"stream": True, "stream_options": {"include_queue_position": True}}, _says(streams)),
        ),
    ]
]

TOOLS = [
    *changes(
        CHAT,
        "tools",
        ({**_ASKED, "tools": [WEATHER]}, _says(calls("get_weather", city="Paris"))),
        ({**_ASKED, "tools": [ADD, WEATHER]}, _says(calls("get_weather", city="Paris"))),
        (
            {**_ASKED, "messages": [_user("use the tool to add 17 and 25")], "tools": [ADD]},
            _says(calls("add", a=17, b=25)),
        ),
        (
            {**_ASKED, "messages": [_user('send "I am late" to Anna')], "tools": [MESSAGE]},
            _says(calls("send_message", name="Anna", text="I am late")),
        ),
        ({"messages": _REPORT, "tools": [WEATHER]}, _says(reports)),
        ({"tools": []}, SAME),
        ({"tools": None}, SAME),
        ({"tools": "get_weather"}, Refused(INVALID, "tools")),
        ({"tools": [{"type": "retrieval"}]}, Refused(INVALID, "tools[0].type")),
        (
            {"tools": [{"type": "function", "function": {"name": "no name"}}]},
            Refused(INVALID, "tools[0].function.name"),
        ),
        (
            {"tools": [{**WEATHER, "function": {**WEATHER["function"], "strict": True}}]},
            Refused(UNSUPPORTED, "tools[0].function.strict"),
        ),
    ),
    *changes(
        CHAT,
        "tool_choice",
        ({**_ASKED, "tools": [WEATHER], "tool_choice": "auto"}, _says(calls("get_weather", city="Paris"))),
        ({**_ASKED, "tools": [WEATHER], "tool_choice": "none"}, _says(calls_nothing)),
        ({**_ASKED, "tools": [WEATHER], "tool_choice": "required"}, Refused(UNSUPPORTED, "tool_choice")),
        ({**_ASKED, "tools": [WEATHER], "tool_choice": _FUNCTION}, Refused(UNSUPPORTED, "tool_choice")),
        ({**_ASKED, "tools": [WEATHER], "tool_choice": 7}, Refused(INVALID, "tool_choice")),
    ),
    *changes(
        CHAT,
        "parallel_tool_calls",
        *(
            (
                {**_ASKED, "tools": [WEATHER], "parallel_tool_calls": parallel},
                _says(calls("get_weather", city="Paris")),
            )
            for parallel in (True, False)
        ),
    ),
]

CASES = (*SEVERAL, *TOOLS)
