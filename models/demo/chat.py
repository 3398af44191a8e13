"""An example's messages as the text that the model is prompted with."""

from __future__ import annotations

import json
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

from models.demo.data.example import Example
from worker.tiny_checkpoint.files import CHAT_TEMPLATE


class Chat:
    """The checkpoint's chat template, in an environment set up as transformers sets up its own."""

    def __init__(self) -> None:
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = _to_json
        self._template = environment.from_string(CHAT_TEMPLATE.read_text("utf-8"))

    def render(self, example: Example) -> str:
        return self._template.render(
            messages=example.messages, tools=example.tools, add_generation_prompt=True
        )


def _to_json(value: Any) -> str:
    # Jinja's own filter escapes what is unsafe in HTML.
    return json.dumps(value, ensure_ascii=False)
