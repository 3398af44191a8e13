"""The tools that a request offers to the model, as far as the model can be offered any."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from dllm_stack.capabilities import Capability
from dllm_stack.decoding import Grammar
from gateway.catalogue import Found
from gateway.fields.honoured import ENGINE_DOES_NOT, capabilities, not_loaded
from gateway.fields.token_by_token import NO_GRAMMAR
from gateway.fields.validation import invalid, unsupported
from gateway.http.sse import encode_json
from gateway.tools.events import Parser
from gateway.tools.protocol import MAX_BYTES, Tool
from gateway.tools.strict import Frame, strict_calls
from gateway.tools.tool_call_tags import ToolCallTags, frame


class Format(NamedTuple):
    """In which a model writes calls.

    Attributes:
        parser: of an answer that may call these functions.
        frame: of a call of this function.
    """

    parser: Callable[[Collection[str]], Parser]
    frame: Callable[[str], Frame]


FORMATS = {"tool_call_tags": Format(ToolCallTags, frame)}
"""By `ModelCard.tools`."""

_NOT_FORCED = "is not supported: constrained decoding is not available, so a call cannot be forced"


@dataclass(frozen=True)
class Offer:
    """
    Attributes:
        shown: the tools as the chat template takes them.
        parser: makes the parser of one answer.
        parallel: an answer may have several calls.
        grammar: which its calls have to follow; None: they may have any arguments.
    """

    shown: list[dict[str, Any]]
    parser: Callable[[], Parser]
    parallel: bool
    grammar: Grammar | None


def offer(tools: list[Tool] | None, choice: Any, parallel: bool | None, found: Found) -> Offer | None:
    """What is offered; None: no tool.

    Args:
        choice: `tool_choice`, unchecked.

    Raises:
        RequestError: naming what cannot be done, or not by this model.
    """
    _check_choice(choice)
    if not tools:
        return None
    if sum(len(encode_json(tool.function.parameters)) for tool in tools) > MAX_BYTES:
        raise invalid("tools", f"must have parameters of at most {MAX_BYTES} bytes together")
    if found.card is None:
        raise not_loaded(found)
    form = FORMATS.get(found.card.tools or "")
    if form is None:
        raise unsupported("tools", f"is not supported by {found.pool}: its chat template knows no tool calls")
    if choice == "none":
        return None
    grammar = None
    if (strict := strict_param(tools)) is not None:
        _check_strict(strict, found)
        grammar = strict_calls(tools, [form.frame(tool.function.name) for tool in tools])
    names = {tool.function.name for tool in tools}
    shown = [tool.model_dump(exclude_none=True) for tool in tools]
    return Offer(shown, lambda: form.parser(names), parallel is not False, grammar)


def strict_param(tools: list[Tool]) -> str | None:
    """The name of the first field that asks for calls that follow their schema."""
    strict = (f"tools[{i}].function.strict" for i, tool in enumerate(tools) if tool.function.strict)
    return next(strict, None)


def _check_strict(param: str, found: Found) -> None:
    if Capability.STRICT in capabilities(found):
        return
    why = NO_GRAMMAR
    if found.card is not None and found.card.is_autoregressive:
        why = ENGINE_DOES_NOT
    raise unsupported(
        param,
        f"other than false is not supported by {found.pool}: {why}, so arguments may differ from their"
        " schema; leave it out, and check them",
    )


def _check_choice(choice: Any) -> None:
    if choice not in (None, "auto", "none"):
        if choice == "required" or isinstance(choice, dict):
            raise unsupported("tool_choice", f'other than "auto" or "none" {_NOT_FORCED}')
        raise invalid("tool_choice", 'must be "auto" or "none"')
