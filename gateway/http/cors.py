"""Which web pages of other origins may use the API from a browser: none, unless settings name them."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from dllm_stack.limits import EXPOSED_HEADERS
from dllm_stack.outcomes import ErrorCode, Problem
from gateway.http.errors import error_response
from gateway.http.request_id import HEADER

MAX_AGE_S = 600  # what a browser may remember of it


class Cors(CORSMiddleware):
    """Answers preflights itself, without a key: browsers send none with them."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),
            expose_headers=(HEADER, *EXPOSED_HEADERS),
            max_age=MAX_AGE_S,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        if response.status_code == 200:
            return response
        message = f"{bytes(response.body).decode()}: see gateway.cors_origins."
        refusal = error_response(Problem(ErrorCode.INVALID_VALUE, message))
        refusal.headers.update({name: value for name, value in response.headers.items() if name in _KEPT})
        return refusal


_KEPT = {"vary", "access-control-allow-origin"}
