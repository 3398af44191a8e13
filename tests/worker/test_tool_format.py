"""How a model writes tool calls, found out from its chat template."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.demo import chat
from tests.worker.test_prompt import edited, renderer
from worker.prompt import Renderer

__all__ = ["renderer"]

OFFER = "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"
EXAMPLE = 'Write <tool_call>\n{"name": <name>, "arguments": <arguments>}\n</tool_call>.'
MESSAGES = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
END = "{% endfor %}{% endfor %}"


def template(call: str, offer: str = OFFER) -> str:
    return offer + MESSAGES + call + END


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (template("<tool_call>\n{{ c.function | tojson }}\n</tool_call>"), "tool_call_tags"),
        # As Qwen's and LLaDA2's do, which show an example before.
        (
            template(
                '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": '
                "{{ c.function.arguments | tojson }}}\n</tool_call>",
                OFFER + EXAMPLE,
            ),
            "tool_call_tags",
        ),
        # As GLM's and Qwen3-Coder's.
        (template("<tool_call>{{ c.function.name }}<arg_key>a</arg_key></tool_call>", OFFER), None),
        (template("<tool_call>\n<function={{ c.function.name }}>\n</function>\n</tool_call>"), None),
        (template("[TOOL_CALLS] [{{ c.function | tojson }}]", OFFER + EXAMPLE), None),
        # Calls may come back, but nothing offers any.
        (template("<tool_call>\n{{ c.function | tojson }}\n</tool_call>", ""), None),
        ("{{ raise_exception('no tools, please') }}", None),
        (None, None),
    ],
)
def test_the_format_of_a_template(
    location: str, tmp_path: Path, written: str | None, expected: str | None
) -> None:
    assert edited(location, tmp_path / "t", written).tool_format == expected


def test_the_checkpoints_that_are_ours_call_tools(renderer: Renderer) -> None:
    assert renderer.tool_format == "tool_call_tags"
    assert Renderer.load(str(Path(chat.__file__).parent / "checkpoint"), None, 4096).tool_format is not None
