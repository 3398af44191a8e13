"""The body of a request: read up to a limit, and decoded."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pydantic_core
from starlette.datastructures import Headers
from starlette.types import Receive

from dllm_stack.outcomes import ErrorCode, Problem, RequestError

LINGER_S = 5.0


class ClientGone(Exception):
    """The client closed its connection, or reads no more."""


async def read_body(headers: Headers, receive: Receive, limit: int) -> bytes:
    """
    Raises:
        RequestError: the body has more than `limit` bytes. No more than that was read.
        ClientGone: the connection was closed before its end.
    """
    declared = headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body += message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        if not message.get("more_body", False):
            return bytes(body)


async def discard_body(receive: Receive) -> None:
    """Reads on for a while after a refusal.

    A connection closed on unread bytes is reset, and a client that is still sending would see that
    instead of the answer.
    """
    try:
        async with asyncio.timeout(LINGER_S):
            while (message := await receive())["type"] == "http.request" and message.get("more_body"):
                pass
    except TimeoutError:
        pass


def decode_json(body: bytes) -> Any:
    try:
        return parse_json(body)
    except ValueError as error:
        raise RequestError(Problem(ErrorCode.INVALID_JSON, f"The body is not valid JSON: {error}.")) from None


def parse_json(text: bytes | str) -> Any:
    """Without Python's collector of garbage, which would look through a large document again and again while
    it is made: four megabytes of empty lists would keep everybody else waiting for half a second.

    Raises:
        ValueError: it is no JSON.
    """
    gc.disable()
    try:
        return pydantic_core.from_json(text, allow_inf_nan=False)
    finally:
        gc.enable()


def _too_large(limit: int) -> RequestError:
    return RequestError(
        Problem(ErrorCode.BODY_TOO_LARGE, f"The body of a request may have at most {limit} bytes.")
    )
