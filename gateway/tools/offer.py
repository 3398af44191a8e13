"""The tools that a request offers to the model, as far as the model can be offered any."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from gateway.catalogue import Found
from gateway.fields.honoured import not_loaded
from gateway.fields.validation import invalid, unsupported
from gateway.tools.events import Parser
from gateway.tools.protocol import Tool
from gateway.tools.tool_call_tags import ToolCallTags

PARSERS: dict[str, Callable[[Collection[str]], Parser]] = {"tool_call_tags": ToolCallTags}
"""By `ModelCard.tools`, the format in which a model writes calls."""

_NOT_FORCED = "is not supported: constrained decoding is not available, so a call cannot be forced"


@dataclass(frozen=True)
class Offer:
    """
    Attributes:
        shown: the tools as the chat template takes them.
        parser: makes the parser of one answer.
        parallel: an answer may have several calls.
    """

    shown: list[dict[str, Any]]
    parser: Callable[[], Parser]
    parallel: bool


def offer(tools: list[Tool] | None, choice: Any, parallel: bool | None, found: Found) -> Offer | None:
    """What is offered; None: no tool.

    Args:
        choice: `tool_choice`, unchecked.

    Raises:
        RequestError: naming what cannot be done, or not by this model.
    """
    _check_choice(choice)
    for i, tool in enumerate(tools or []):
        if tool.function.strict:
            raise unsupported(f"tools[{i}].function.strict", f"other than false {_NOT_FORCED}")
    if not tools:
        return None
    if found.card is None:
        raise not_loaded(found)
    make = PARSERS.get(found.card.tools or "")
    if make is None:
        raise unsupported("tools", f"is not supported by {found.pool}: its chat template knows no tool calls")
    if choice == "none":
        return None
    names = {tool.function.name for tool in tools}
    shown = [tool.model_dump(exclude_none=True) for tool in tools]
    return Offer(shown, lambda: make(names), parallel is not False)


def _check_choice(choice: Any) -> None:
    if choice not in (None, "auto", "none"):
        if choice == "required" or isinstance(choice, dict):
            raise unsupported("tool_choice", f'other than "auto" or "none" {_NOT_FORCED}')
        raise invalid("tool_choice", 'must be "auto" or "none"')
