"""What a request body may say. Each endpoint has one `Rules` table of every name it knows; a name in
none of its parts is refused, so that nothing is ignored in silence."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.json_schema import DEFAULT_REF_TEMPLATE

from dllm_stack.capabilities import Capability
from dllm_stack.outcomes import ErrorCode, Problem, RequestError

_JSON_TYPES: dict[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


STRICT = ConfigDict(strict=True, extra="forbid", frozen=True)
"""A JSON string is no integer, nor is a boolean."""


class Honoured(BaseModel):
    """Base of the schemas of honoured fields."""

    model_config = STRICT


@dataclass(frozen=True)
class Neutral:
    """A parameter taken only where it changes nothing: as null, or as one of `values`.

    Attributes:
        types: the JSON types it has where it is supported.
        why: ends the sentence that refuses it.
    """

    types: tuple[type, ...]
    values: tuple[Any, ...]
    why: str

    def check(self, param: str, value: Any) -> None:
        if value is None:
            return
        if type(value) not in self.types:
            kinds = [_JSON_TYPES[kind] for kind in self.types if kind is not int or float not in self.types]
            raise invalid(param, f"must be {' or '.join(kinds)}")
        if value not in self.values:
            allowed = " or ".join(json.dumps(value) for value in self.values)
            only = f"other than {allowed} " if allowed else ""
            raise unsupported(param, f"{only}is not supported: {self.why}")


@dataclass(frozen=True)
class Conditional:
    """A field of the honoured ones that some models cannot honour: see `ModelCard.capabilities`.

    Attributes:
        values: those that ask for nothing, and are taken by every model; so is null.
        why: what a diffusion model has to say of the others; ends the sentence that refuses them.
    """

    capability: Capability
    values: tuple[Any, ...]
    why: str


Schema = TypeVar("Schema", bound=Honoured)


@dataclass(frozen=True)
class Rules(Generic[Schema]):
    """
    Attributes:
        honoured: fields with an effect.
        neutral: known fields without one; see `Neutral`.
        ignored: known fields that need not have one here, such as labels for the caller's own use.
        conditional: the honoured fields that have one only with some models; see `honoured.check`.
    """

    honoured: type[Schema]
    neutral: Mapping[str, Neutral]
    ignored: frozenset[str]
    conditional: Mapping[str, Conditional] = field(default_factory=dict)

    def json_schema(self, ref_template: str = DEFAULT_REF_TEMPLATE) -> dict[str, Any]:
        """Of every name there is."""
        schema: dict[str, Any] = self.honoured.model_json_schema(ref_template=ref_template)
        for name, neutral in self.neutral.items():
            schema["properties"][name] = {
                "enum": [*neutral.values, None],
                "description": f"Any other value is refused: {neutral.why}.",
            }
        for name, conditional in self.conditional.items():
            schema["properties"][name]["description"] = (
                f"Of models that have {conditional.capability} among their capabilities."
            )
        for name in sorted(self.ignored):
            schema["properties"][name] = {"description": "Taken, without effect."}
        return schema


def check(body: Any, rules: Rules[Schema], path: str = "") -> Schema:
    """The honoured fields of a body.

    Args:
        path: where `body` is in the request; empty for the request itself.

    Raises:
        RequestError: naming the first field that is wrong.
    """
    if not isinstance(body, dict):
        raise invalid(path or None, "must be a JSON object")
    honoured = {}
    for name, value in body.items():
        param = f"{path}.{name}" if path else name
        if name in rules.honoured.model_fields:
            honoured[name] = value
        elif name in rules.neutral:
            rules.neutral[name].check(param, value)
        elif name not in rules.ignored:
            raise _unknown(param)
    try:
        return rules.honoured.model_validate(honoured)
    except ValidationError as error:
        raise _first(error, path) from None


def invalid(param: str | None, what: str) -> RequestError:
    message = f"{param or 'The body'} {what}."
    return RequestError(Problem(ErrorCode.INVALID_VALUE, message, param=param))


def missing(param: str) -> RequestError:
    return RequestError(Problem(ErrorCode.MISSING_FIELD, f"{param} is required.", param=param))


def unsupported(param: str, what: str) -> RequestError:
    return RequestError(Problem(ErrorCode.UNSUPPORTED_PARAMETER, f"{param} {what}.", param=param))


def _unknown(param: str) -> RequestError:
    param = param[:100]
    return unsupported(param, "is not a parameter of this endpoint")


def _first(error: ValidationError, path: str) -> RequestError:
    return refusal_of(error.errors(include_url=False, include_context=False, include_input=False)[0], path)


def refusal_of(detail: Mapping[str, Any], path: str = "") -> RequestError:
    """
    Args:
        detail: one of pydantic's, of a schema that is `Honoured`.
        path: as of `check`.
    """
    param = path
    for part in detail["loc"]:
        if isinstance(part, int):
            param += f"[{part}]"
        else:
            param += f".{part}" if param else part
    if detail["type"] == "missing":
        return missing(param)
    if detail["type"] == "extra_forbidden":
        return _unknown(param)
    what = re.sub("^(Input|List|String) should", "must", detail["msg"])
    what = re.sub(r"a valid dictionary( or instance of \w+)?", "an object", what)
    return invalid(param, what)
