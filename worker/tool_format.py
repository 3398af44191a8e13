"""In which format a model writes tool calls, as far as its chat template shows it."""

from __future__ import annotations

TAGS = "tool_call_tags"
"""A JSON object with `name` and `arguments` between `<tool_call>` and `</tool_call>`."""

_XML = "<function="  # between the same tags, as Qwen3-Coder writes it


def tool_format(chat_template: str | None) -> str | None:
    """None: it has none, or one that is not known here."""
    if chat_template is None or "tools" not in chat_template:
        return None
    return TAGS if "<tool_call>" in chat_template and _XML not in chat_template else None
