"""A chat's messages as the worker takes them: OpenAI's roles, and text."""

from __future__ import annotations

from typing import Any

from dllm_stack.messages import ChatPrompt
from gateway.chat.protocol import Message, ToolCall
from gateway.fields.validation import invalid, missing, unsupported
from gateway.http.body import MAX_PARTS, parse_json, parts_of
from gateway.tools.offer import Offer


def chat_prompt(messages: list[Message], offer: Offer | None) -> ChatPrompt:
    """
    Raises:
        RequestError: naming the content that is not text, or the call that is none.
    """
    _check_arguments(messages)
    return ChatPrompt(
        [_as_text(message, f"messages[{i}]") for i, message in enumerate(messages)],
        offer.shown if offer else None,
    )


def _check_arguments(messages: list[Message]) -> None:
    """They are JSON within strings of the body, and so not among what was counted of it."""
    calls = (call for message in messages for call in message.get("tool_calls") or ())
    if sum(parts_of(call["function"]["arguments"].encode()) for call in calls) > MAX_PARTS:
        what = f"must have calls with at most {MAX_PARTS} strings, arrays and objects in all their arguments"
        raise invalid("messages", what)


def _as_text(message: Message, path: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": message["role"]}
    if (name := message.get("name")) is not None:
        fields["name"] = name
    if (call_id := message.get("tool_call_id")) is not None:
        fields["tool_call_id"] = call_id
    if (calls := message.get("tool_calls")) is not None:
        fields["tool_calls"] = [_call(call, f"{path}.tool_calls[{i}]") for i, call in enumerate(calls)]
    if (content := message.get("content")) is not None:
        fields["content"] = _text(content, f"{path}.content")
    elif not calls:
        raise missing(f"{path}.content")
    return fields


def _call(call: ToolCall, path: str) -> dict[str, Any]:
    try:
        parse_json(call["function"]["arguments"] or "{}")
    except ValueError as error:
        raise invalid(f"{path}.function.arguments", f"must be JSON in a string: {error}") from None
    return {name: value for name, value in call.items() if name != "index"}


def _text(content: Any, param: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise invalid(param, "must be a string or an array of text parts")
    return "".join(_part(part, f"{param}[{i}]") for i, part in enumerate(content))


def _part(part: Any, param: str) -> str:
    if not isinstance(part, dict):
        raise invalid(param, "must be an object")
    if part.get("type") != "text":
        raise unsupported(param, 'must have the type "text": only text is taken')
    if not isinstance(text := part.get("text"), str):
        raise invalid(f"{param}.text", "must be a string")
    for name in part.keys() - {"type", "text"}:
        raise unsupported(f"{param}.{name}"[:100], "is not a field of a text part")
    return text
