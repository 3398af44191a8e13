"""The OpenAPI description: FastAPI's, and the bodies and headers, which the endpoints check themselves."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gateway.terms import header_parameters
from gateway.validation import Rules


def install(app: FastAPI, bodies: dict[str, Rules[Any]]) -> None:
    """
    Args:
        bodies: path -> the rules of its requests.
    """

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _describe(app, bodies)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _describe(app: FastAPI, bodies: dict[str, Rules[Any]]) -> dict[str, Any]:
    document = get_openapi(title=app.title, version=app.version, routes=app.routes)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for path, rules in bodies.items():
        schema = rules.json_schema("#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        content = {"application/json": {"schema": schema}}
        for operation in document["paths"][path].values():
            operation["requestBody"] = {"required": True, "content": content}
            operation["parameters"] = header_parameters()
    return document
