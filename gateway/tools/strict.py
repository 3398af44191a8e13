"""The form of an answer whose calls keep to the schemas of their tools, where a tool asks for that."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from dllm_stack.decoding import Grammar, GrammarKind
from gateway.fields.grammar import MAX_GRAMMAR_CHARACTERS, schema_text
from gateway.fields.validation import invalid
from gateway.tools.protocol import Tool


class Frame(NamedTuple):
    """What is around the arguments of a call, as the chat template shows it to the model.

    Attributes:
        trigger: with which every call begins.
        begin: of one of this function's; begins with the trigger.
    """

    trigger: str
    begin: str
    end: str


def strict_calls(tools: list[Tool], frames: list[Frame]) -> Grammar:
    """Text may be anything that does not begin a call; arguments for a tool that is not strict, any object.

    Args:
        frames: one a tool.

    Raises:
        RequestError: naming the schema that the engine could not follow.
    """
    structures: list[dict[str, Any]] = []
    for i, (tool, frame) in enumerate(zip(tools, frames, strict=True)):
        schema: dict[str, Any] = {"type": "object"}
        if tool.function.strict and tool.function.parameters is not None:
            schema = tool.function.parameters
            schema_text(schema, f"tools[{i}].function.parameters")
        structures.append({"begin": frame.begin, "schema": schema, "end": frame.end})
    triggers = sorted({frame.trigger for frame in frames})
    text = json.dumps({"type": "structural_tag", "structures": structures, "triggers": triggers})
    if len(text) > MAX_GRAMMAR_CHARACTERS:
        raise invalid(
            "tools", f"with one that is strict must have at most {MAX_GRAMMAR_CHARACTERS} characters"
        )
    return Grammar(kind=GrammarKind.STRUCTURAL_TAG, text=text)
