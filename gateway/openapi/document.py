"""The OpenAPI document: FastAPI's paths, and what the endpoints check and write by themselves.

It is the 3.1 that most tools read. That has no word for the events of a stream; as is usual, the schema of a
stream is that of each event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from dllm_stack.limits.headers import EXPOSED_HEADERS
from dllm_stack.outcomes import KINDS, ErrorCode
from gateway.fields.terms import header_parameters
from gateway.fields.validation import Rules
from gateway.http.request_id import HEADER as REQUEST_ID

_REFS = "#/components/schemas/"
_BEARER = "key"
_DESCRIPTION = (
    "OpenAI's HTTP API, and SGLang's /generate. What a model cannot honour is refused by name. "
    "Whether it takes a key is for the operator to say."
)

ASKING = frozenset(
    {
        ErrorCode.INVALID_API_KEY,
        ErrorCode.PERMISSION_DENIED,
        ErrorCode.RATE_LIMIT_EXCEEDED,
        ErrorCode.QUEUE_UNAVAILABLE,
        ErrorCode.INTERNAL_ERROR,
    }
)
"""What any request that is for a model's users may end with."""
NAMING = ASKING | {ErrorCode.MODEL_NOT_FOUND}
GENERATING = frozenset(ErrorCode) - {ErrorCode.NOT_FOUND, ErrorCode.METHOD_NOT_ALLOWED}
INQUIRING = GENERATING - {ErrorCode.QUEUE_FULL, ErrorCode.WORKER_LOST, ErrorCode.ENGINE_ERROR}
PROBING = frozenset({ErrorCode.INTERNAL_ERROR})


@dataclass(frozen=True)
class Operation:
    """What one path takes and answers.

    Attributes:
        tag: under which it is listed.
        summary: a line.
        answer: type of the body of status 200; a media type if that is no JSON.
        errors: those that it may end with.
        event: type of each event of a stream; None: it never streams.
        rules: of the request's body; None: it has none.
        otherwise: status -> type of a body that is no error of the usual shape.
    """

    tag: str
    summary: str
    answer: Any
    errors: frozenset[ErrorCode]
    event: Any = None
    rules: Rules[Any] | None = None
    otherwise: dict[int, Any] | None = None


def install(app: FastAPI, operations: dict[str, Operation]) -> None:
    """
    Args:
        operations: by path, each of which has one method.
    """

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _describe(app, operations)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _describe(app: FastAPI, operations: dict[str, Operation]) -> dict[str, Any]:
    document = get_openapi(title=app.title, version=app.version, description=_DESCRIPTION, routes=app.routes)
    types = [each for operation in operations.values() for each in _types(operation)]
    written, components = msgspec.json.schema_components(types, ref_template=_REFS + "{name}")
    for component in components.values():
        _require_what_is_always_written(component)
    schemas = {**components, **_error_schemas()}
    of = dict(zip(map(_key, types), written, strict=True))
    for path, operation in operations.items():
        (described,) = document["paths"][path].values()
        described["tags"] = [operation.tag]
        described["summary"] = operation.summary
        described["security"] = [{}, {_BEARER: []}] if ErrorCode.INVALID_API_KEY in operation.errors else [{}]
        described["responses"] = _responses(operation, of)
        if operation.rules is not None:
            schema = operation.rules.json_schema(_REFS + "{model}")
            schemas |= schema.pop("$defs", {})
            described["requestBody"] = {"required": True, "content": _json(schema)}
            described["parameters"] = header_parameters()
    document["components"] = {
        "schemas": schemas,
        "securitySchemes": {_BEARER: {"type": "http", "scheme": "bearer"}},
    }
    document["tags"] = [{"name": name} for name in dict.fromkeys(each.tag for each in operations.values())]
    return document


def _types(operation: Operation) -> Iterable[Any]:
    answers = [operation.answer, operation.event, *(operation.otherwise or {}).values()]
    return [each for each in answers if each is not None and not isinstance(each, str)]


def _key(type_: Any) -> str:
    return repr(type_)


def _require_what_is_always_written(component: dict[str, Any]) -> None:
    """msgspec requires nothing that has a default; what may be left out has UNSET, and so no default."""
    fields = component.get("properties", {})
    required = set(component.get("required", ())) | {
        name for name, field in fields.items() if "default" in field
    }
    for field in fields.values():
        field.pop("default", None)
    if required:
        component["required"] = [name for name in fields if name in required]


def _responses(operation: Operation, of: dict[str, Any]) -> dict[str, Any]:
    if isinstance(operation.answer, str):
        content: dict[str, Any] = {operation.answer: {"schema": {"type": "string"}}}
    else:
        content = _json(of[_key(operation.answer)])
    if operation.event is not None:
        content["text/event-stream"] = {"schema": _event(of[_key(operation.event)])}
    responses = {
        "200": {"description": "The answer.", "content": content, "headers": _headers(operation, 200)}
    }
    for status, codes in sorted(_by_status(operation.errors).items()):
        responses[str(status)] = {
            "description": ", ".join(codes),
            "content": _json({"$ref": f"{_REFS}{_error_name(status)}"}),
            "headers": _headers(operation, status),
        }
    for status, type_ in (operation.otherwise or {}).items():
        responses[str(status)] = {
            "description": "See the body.",
            "content": _json(of[_key(type_)]),
            "headers": _headers(operation, status),
        }
    return responses


def _headers(operation: Operation, status: int) -> dict[str, Any]:
    """Only the request's id is always there."""
    names = []
    if ErrorCode.RATE_LIMIT_EXCEEDED in operation.errors and operation.rules is not None:
        names = [name for name in EXPOSED_HEADERS if name.startswith("x-ratelimit-")]
    if status in (429, 503):
        names += [name for name in EXPOSED_HEADERS if name.startswith("retry-after")]
    text = {"schema": {"type": "string"}}
    request_id = {"required": True, "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"}}
    return {REQUEST_ID: request_id} | dict.fromkeys(names, text)


def _event(schema: dict[str, Any]) -> dict[str, Any]:
    data = {"anyOf": [schema, {"$ref": f"{_REFS}Error"}]}
    return {
        "type": "object",
        "description": "A server-sent event. Between them may be comments, which begin with a colon.",
        "properties": {
            "data": {
                "anyOf": [
                    {"type": "string", "contentMediaType": "application/json", "contentSchema": data},
                    {"const": "[DONE]", "description": "The last event, unless the one before is an error."},
                ]
            }
        },
        "required": ["data"],
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _by_status(errors: Iterable[ErrorCode]) -> dict[int, list[ErrorCode]]:
    found = defaultdict(list)
    for code in sorted(errors):
        found[KINDS[code].status].append(code)
    return found


def _error_name(status: int) -> str:
    return f"Error{status}"


def _error_schemas() -> dict[str, Any]:
    """One for each status, and `Error` for any of them."""
    return {
        "Error": _error_schema(list(ErrorCode)),
        **{_error_name(status): _error_schema(codes) for status, codes in _by_status(ErrorCode).items()},
    }


def _error_schema(codes: list[ErrorCode]) -> dict[str, Any]:
    fields = {
        "message": {"type": "string"},
        "type": {"enum": sorted({KINDS[code].type for code in codes})},
        "param": {"type": ["string", "null"], "description": "The field that is wrong."},
        "code": {"enum": sorted(map(str, codes))},
    }
    error = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"error": error},
        "required": ["error"],
        "additionalProperties": False,
    }
