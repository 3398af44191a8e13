"""Every answer's `x-request-id`: made here for each request, whatever the client has sent, as OpenAI does and
as Envoy does at the edge. It is the id of the request's job, and nobody else may choose that."""

from __future__ import annotations

import re
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import Scope

HEADER = "x-request-id"
# What a client or a proxy calls the request: looked for in this order, and only logged.
CLIENT_HEADERS = ("x-client-request-id", HEADER)

_SANE = re.compile(r"[\x21-\x7e]{1,128}")
_KEY = "dllm_stack.request_id"  # where a scope has it


def new_request_id() -> str:
    return uuid4().hex


def request_id_of(scope: Scope) -> str:
    request_id: str = scope.setdefault(_KEY, new_request_id())
    return request_id


def client_request_id(headers: Headers) -> str | None:
    """What the client calls its request, if that is fit for a log."""
    for name in CLIENT_HEADERS:
        if (value := headers.get(name)) is not None and _SANE.fullmatch(value):
            return value
    return None
