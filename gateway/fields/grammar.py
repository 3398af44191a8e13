"""The form that an answer must have: response_format and its like, as far as they can be checked here.

The engine's grammar compiler knows the rest, and its refusal names the same field. What is checked here is
what would cost the engine time, or be ignored by it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from dllm_stack.decoding import Grammar, GrammarKind
from gateway.fields.validation import invalid, missing, unsupported

# A schema of so many characters compiles in 1.3 s at worst; of ten times as many, in more than 10 s.
MAX_GRAMMAR_CHARACTERS = 65_536
MAX_DEPTH = 64  # of nested arrays and objects in a schema

_ANY_OBJECT = {"type": "object"}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VALUES = frozenset({"const", "default", "enum", "examples"})  # keywords that hold no schemas


def grammar_of(field: str, value: Any, param: str) -> Grammar | None:
    """
    Args:
        field: regex, ebnf, json_schema or response_format.
        value: of the type that this field has; not empty.

    Raises:
        RequestError: naming what is wrong.
    """
    match field:
        case "regex" | "ebnf":
            return Grammar(kind=GrammarKind(field), text=value)
        case "json_schema":
            return _schema(_decoded(value, param), param)
        case _:
            return _response_format(value, param)


def _response_format(value: dict[str, Any], param: str) -> Grammar | None:
    kind = value.get("type")
    known = {"type", "json_schema"} if kind == "json_schema" else {"type"}
    for name in value.keys() - known:
        raise unsupported(f"{param}.{name}"[:100], "is not a field of it")
    match kind:
        case "text":
            return None
        case "json_object":
            return _schema(_ANY_OBJECT, param)
        case "json_schema":
            return _named_schema(value.get("json_schema"), f"{param}.json_schema")
        case None:
            raise missing(f"{param}.type")
        case _:
            raise invalid(f"{param}.type", "must be text, json_object or json_schema")


def _named_schema(value: Any, param: str) -> Grammar:
    if value is None:
        raise missing(param)
    if not isinstance(value, dict):
        raise invalid(param, "must be an object")
    for name in value.keys() - {"name", "description", "schema", "strict"}:
        raise unsupported(f"{param}.{name}"[:100], "is not a field of it")
    if value.get("name") is None:
        raise missing(f"{param}.name")
    if not isinstance(value["name"], str) or not _NAME.fullmatch(value["name"]):
        raise invalid(f"{param}.name", "must be 1 to 64 letters, digits, underscores or hyphens")
    if not isinstance(value.get("description") or "", str):
        raise invalid(f"{param}.description", "must be a string")
    if not isinstance(value.get("strict") or False, bool):
        raise invalid(f"{param}.strict", "must be a boolean")
    if value.get("schema") is None:
        raise missing(f"{param}.schema")
    return _schema(value["schema"], f"{param}.schema")


def _decoded(text: str, param: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise invalid(param, "must be a JSON Schema, as JSON in a string") from None


def _schema(schema: Any, param: str) -> Grammar:
    return Grammar(kind=GrammarKind.JSON_SCHEMA, text=schema_text(schema, param))


def schema_text(schema: Any, param: str) -> str:
    """
    Raises:
        RequestError: it is none that an engine would follow in good time.
    """
    if not isinstance(schema, dict):
        raise invalid(param, "must be an object")
    _check(schema, param)
    text = json.dumps(schema)
    if len(text) > MAX_GRAMMAR_CHARACTERS:
        raise invalid(param, f"is longer than {MAX_GRAMMAR_CHARACTERS} characters")
    return text


def _check(schema: dict[str, Any], param: str) -> None:
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        nested: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                _check_reference(value, param)
                nested += [each for keyword, each in value.items() if keyword not in _VALUES]
            elif isinstance(value, list):
                nested += value
        if not nested:
            return
        level = nested
    raise invalid(param, f"is nested more than {MAX_DEPTH} deep")


def _check_reference(schema: dict[str, Any], param: str) -> None:
    # The engine takes one that leads elsewhere for any JSON.
    reference = schema.get("$ref")
    if isinstance(reference, str) and not reference.startswith("#"):
        raise unsupported(
            param, 'has a $ref that leads out of it: only those that begin with "#" are followed'
        )
