"""`tools` of a request, and what goes with them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from gateway.fields.validation import Honoured

MAX_TOOLS = 128  # OpenAI's limit
MAX_BYTES = 256 << 10  # of all parameters, as JSON: in memory they take up to fifty times as much
NAME = "^[a-zA-Z0-9_-]{1,64}$"


class Function(Honoured):
    name: Annotated[str, Field(pattern=NAME)]
    description: str | None = None
    parameters: dict[str, Any] | None = None  # a JSON schema, for the model to read
    strict: bool | None = None  # of models that have this capability; see strict.py


class Tool(Honoured):
    type: Literal["function"]
    function: Function


Tools = Annotated[list[Tool], Field(max_length=MAX_TOOLS, fail_fast=True)]
ToolChoice = Annotated[Any, WithJsonSchema({"enum": ["auto", "none", None]})]  # checked in offer.py
