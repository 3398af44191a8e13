"""What the fields that those behind the endpoint find fault with are called in the request."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from dllm_stack.outcomes import Problem

_OF_EVERY_REQUEST = frozenset({"model", "service_tier"})
_PROMPTS = frozenset({"messages", "prompt", "input_ids"})


@dataclass(frozen=True)
class Names:
    """
    Attributes:
        prompt: the field that the prompt came in.
        path: before the names of decoding parameters; empty or with a dot at its end.
        dllm: the name of `dllm`.
        schema: the field of a JSON Schema.
        max_tokens: the field of the answer's length.
    """

    prompt: str
    path: str = ""
    dllm: str = "dllm"
    schema: str = "response_format"
    max_tokens: str = "max_tokens"

    def put_into(self, problem: Problem) -> Problem:
        return problem if problem.param is None else replace(problem, param=self._of(problem.param))

    def _of(self, param: str) -> str:
        if param in _OF_EVERY_REQUEST:
            return param
        if param in _PROMPTS:
            return self.prompt
        if param == "structural_tag":
            return "tools"
        if param == "max_tokens":
            return self.max_tokens
        if param.startswith("dllm."):
            return self.dllm + param.removeprefix("dllm")
        return self.schema if param == "json_schema" else f"{self.path}{param}"
