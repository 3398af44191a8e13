"""What the fields that a worker finds fault with are called in the request."""

from __future__ import annotations

from dataclasses import dataclass

_PROMPTS = frozenset({"messages", "prompt", "input_ids"})


@dataclass(frozen=True)
class Names:
    """
    Attributes:
        prompt: the field that the prompt came in.
        path: before the names of decoding parameters; empty or with a dot at its end.
        dllm: the name of `dllm`.
        schema: the field of a JSON Schema.
    """

    prompt: str
    path: str = ""
    dllm: str = "dllm"
    schema: str = "response_format"

    def of(self, param: str) -> str:
        if param in _PROMPTS:
            return self.prompt
        if param.startswith("dllm."):
            return self.dllm + param.removeprefix("dllm")
        return self.schema if param == "json_schema" else f"{self.path}{param}"
