"""Every error as OpenAI's body: {"error": {"message", "type", "param", "code"}}."""

from __future__ import annotations

import structlog
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dllm_stack.outcomes import ErrorCode, Problem, RequestError
from gateway.http.request_id import request_id_of
from gateway.http.sse import encode_json

log = structlog.get_logger()

INTERNAL = Problem(ErrorCode.INTERNAL_ERROR, "The gateway failed on this request.")


def error_response(problem: Problem) -> Response:
    headers = {}
    if problem.retry_after_s is not None:
        headers["retry-after"] = str(problem.retry_after_s)
    if problem.code is ErrorCode.INVALID_API_KEY:
        headers["www-authenticate"] = 'Bearer realm="dllm-stack"'
    return Response(encode_json(problem.body()), problem.status, headers, "application/json")


def install(app: FastAPI) -> None:
    """Makes the app answer in this shape where no endpoint has answered."""

    async def request_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestError)
        return error_response(error.problem)

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        where = f"{request.method} {request.url.path[:200]}"
        if error.status_code == 405:
            problem = Problem(ErrorCode.METHOD_NOT_ALLOWED, f"{where} is not allowed.")
        elif error.status_code == 404:
            problem = Problem(ErrorCode.NOT_FOUND, f"There is no {where}.")
        else:
            problem = Problem(ErrorCode.INVALID_VALUE, str(error.detail))
        response = error_response(problem)
        response.headers.update(error.headers or {})  # 405 says in Allow what is allowed
        return response

    async def unexpected(request: Request, error: Exception) -> Response:
        log.error("unexpected error", request=request_id_of(request.scope), path=request.url.path[:200])
        return error_response(INTERNAL)

    app.add_exception_handler(RequestError, request_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(Exception, unexpected)
