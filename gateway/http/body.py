"""The body of a request: read up to a limit, and decoded up to another.

The event loop stands still while a body is decoded and checked, and with it every stream: Python's lock is
not released meanwhile, so that a thread would not help. What that takes is a matter of a body's parts rather
than of its bytes, so both have a limit.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pydantic_core
from starlette.datastructures import Headers
from starlette.types import Receive

from dllm_stack.outcomes import ErrorCode, Problem, RequestError
from gateway.http.room import Share

LINGER_S = 5.0
MAX_PARTS = 100_000  # strings, names among them, arrays and objects of one body


class ClientGone(Exception):
    """The client closed its connection, or reads no more."""


async def read_body(headers: Headers, receive: Receive, limit: int, share: Share) -> bytes:
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
        more = message.get("body", b"")
        body += more
        share.take(len(more))
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
    """
    Raises:
        RequestError: it is no JSON, or has too many parts.
    """
    if _has_too_many_parts(body):
        message = f"A body may have at most {MAX_PARTS} strings, arrays and objects, names counted."
        raise RequestError(Problem(ErrorCode.BODY_TOO_LARGE, message))
    try:
        return parse_json(body)
    except ValueError as error:
        raise RequestError(Problem(ErrorCode.INVALID_JSON, f"The body is not valid JSON: {error}.")) from None


def parse_json(text: bytes | str) -> Any:
    """
    Raises:
        ValueError: it is no JSON.
    """
    return pydantic_core.from_json(text, allow_inf_nan=False)


def parts_of(text: bytes) -> int:
    """How many strings, arrays and objects it has, if it is JSON. Of more than MAX_PARTS perhaps too few."""
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"")  # so that each quotation mark bounds a string
    strings = plain.count(b'"') // 2
    if strings > MAX_PARTS:
        return strings
    return strings + _containers(b"".join(plain.split(b'"')[::2]))


def _has_too_many_parts(body: bytes) -> bool:
    most = body.count(b'"') // 2 + _containers(body)  # what is within strings among them
    return most > MAX_PARTS and parts_of(body) > MAX_PARTS


def _containers(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def _too_large(limit: int) -> RequestError:
    return RequestError(
        Problem(ErrorCode.BODY_TOO_LARGE, f"The body of a request may have at most {limit} bytes.")
    )
