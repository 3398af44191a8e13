"""The format in which a model writes tool calls, as its chat template shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from dllm_stack.messages import ChatPrompt

TOOL_CALL_TAGS = "tool_call_tags"

_NAME, _ARGUMENTS = "look_up_stars", {"constellation": "Lyra"}
_CALL = {"id": "0", "type": "function", "function": {"name": _NAME, "arguments": json.dumps(_ARGUMENTS)}}
_TOOL = {"type": "function", "function": {"name": _NAME, "description": "Stars", "parameters": {}}}
_PROBE = ChatPrompt(
    [
        {"role": "user", "content": "Which is the brightest star?"},
        {"role": "assistant", "tool_calls": [_CALL]},
        {"role": "tool", "tool_call_id": "0", "content": "Vega"},
    ],
    [_TOOL],
)


def tool_format(render: Callable[[ChatPrompt], str], keeps: Callable[[str], bool]) -> str | None:
    """What the template makes of a call that was made before: so the model has learned to write them.

    Args:
        render: a chat's text.
        keeps: whether a text is the same once it has been tokens, without special ones.

    Returns:
        None: the template knows no tools, or writes their calls in a form that is not parsed here.
    """
    try:
        rendered = render(_PROBE)
    except Exception:  # a template may fail in any way on what it was not made for
        return None
    calls = re.findall(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", rendered, re.DOTALL)
    offers = rendered.count(_NAME) > 1
    if offers and any(map(_is_probe, calls)) and keeps("<tool_call></tool_call>"):
        return TOOL_CALL_TAGS
    return None


def _is_probe(call: str) -> bool:
    try:
        found: Any = json.loads(call)
    except ValueError:
        return False
    return isinstance(found, dict) and (found.get("name"), found.get("arguments")) == (_NAME, _ARGUMENTS)
