"""What stands before every route of the admin API, those that do not exist included."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dllm_stack.outcomes import ErrorCode, Problem, RequestError
from dllm_stack.tenants import Key
from gateway.access import GIVE_UP_S, Access
from gateway.http.body import ClientGone, read_body
from gateway.http.channel import Channel
from gateway.http.refusal import refuse_unread
from gateway.http.request_id import request_id_of
from gateway.http.room import BODIES, Room

MAX_BODY_BYTES = 64 << 10
MAX_BODY_S = 10.0

_NOTES = "dllm_stack.admin_notes"  # where a scope has them
_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})

log = structlog.get_logger()


class Guard:
    """Lets nobody in without an admin key, takes no more of a body than it should have, and writes a line
    into the log for each act."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._room = Room(BODIES * MAX_BODY_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            await self._access.admin(headers)
            body = await _read(headers, receive, self._room)
            key = await self._access.admin(headers)  # it may have been revoked meanwhile
        except RequestError as error:
            give_up_at = asyncio.get_running_loop().time() + GIVE_UP_S
            channel = Channel(send, give_up_at)
            with suppress(ClientGone):
                await refuse_unread(error.problem, receive, channel)
        except ClientGone:
            pass
        else:
            await self._admit(key, scope, _Again(body, receive), send)

    async def _admit(self, key: Key, scope: Scope, receive: Receive, send: Send) -> None:
        notes: dict[str, Any] = {}
        scope[_NOTES] = notes
        status: int | None = None

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            if scope["method"] not in _LOOKS:
                # As it was sent, with its escapes: nobody can forge a line.
                act = f"{scope['method']} {scope['raw_path'].decode('latin-1')}"
                client = (scope.get("client") or ("",))[0]
                request_id = request_id_of(scope)
                log.info(
                    "admin", act=act, key=key.id, client=client, status=status, request=request_id, **notes
                )


def note(request: Request, **what: Any) -> None:
    """For the line in the log."""
    request.scope[_NOTES].update(what)


class _Again:
    """A body that was read, for those who come after."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _read(headers: Headers, receive: Receive, room: Room) -> bytes:
    try:
        async with room.share(asyncio.get_running_loop().time() + MAX_BODY_S) as share:
            return await read_body(headers, receive, MAX_BODY_BYTES, share)
    except TimeoutError:
        message = f"The request did not send its body within {MAX_BODY_S:g} s."
        raise RequestError(Problem(ErrorCode.DEADLINE_EXCEEDED, message)) from None
