"""The admin API as an ASGI application."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import FastAPI, Security
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from dllm_stack.outcomes import ErrorCode, Problem, unavailable
from dllm_stack.redis import RedisError
from gateway.admin import keys, modes, pools, tenants, workers
from gateway.admin.guard import Guard
from gateway.fields.validation import refusal_of
from gateway.gateway import Gateway
from gateway.http import errors
from gateway.http.errors import error_response
from gateway.http.outermost import Application


class Error(BaseModel):
    message: str
    type: str
    param: str | None
    code: str


class ErrorBody(BaseModel):
    error: Error


_RESOURCES = (pools, workers, modes, tenants, keys)
_ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "Refused: the error says why."},
    "5XX": {"model": ErrorBody, "description": "It could not be done, or may not have been."},
}


def create_app(gateway: Gateway) -> FastAPI:
    """It has no life of its own: `gateway` is to be running while it is served."""
    app = Application(
        title="dllm-stack admin",
        description="Every request needs a key that was created for this API, as `Authorization: Bearer`.",
        guard=partial(Guard, access=gateway.access),
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        responses=_ERRORS,
        # Only for the document: the guard stands before all of it.
        dependencies=[Security(HTTPBearer(auto_error=False, scheme_name="admin key"))],
    )
    app.state.gateway = gateway
    errors.install(app)
    app.add_exception_handler(405, _not_allowed)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(RedisError, _unavailable)
    for resource in _RESOURCES:
        app.include_router(resource.router)
    return app


async def _not_allowed(request: Request, error: Exception) -> Response:
    """Starlette names the methods of one route only, and a path here has several."""
    where = f"{request.method} {request.url.path[:200]}"
    response = error_response(Problem(ErrorCode.METHOD_NOT_ALLOWED, f"{where} is not allowed."))
    routes = [route for resource in _RESOURCES for route in resource.router.routes]
    matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    methods = {method for route in matching if isinstance(route, APIRoute) for method in route.methods or ()}
    response.headers["allow"] = ", ".join(sorted(methods)) or "GET"  # of the document
    return response


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    detail = error.errors()[0]
    where, *loc = detail["loc"]
    match detail["type"]:
        case "json_invalid":
            what = f"The body is not valid JSON: {detail['ctx']['error']}."
            problem = Problem(ErrorCode.INVALID_JSON, what)
        case "missing" | "model_attributes_type" if where == "body" and not loc:
            what = "The body must be a JSON object, with the content type application/json."
            problem = Problem(ErrorCode.INVALID_VALUE, what)
        case _:
            problem = refusal_of({**detail, "loc": loc}).problem
    return error_response(problem)


async def _unavailable(request: Request, error: Exception) -> Response:
    why = " ".join(str(error).split())
    message = f"Redis does not do this at present, or did not say that it has: {why}"
    return error_response(unavailable(message))
