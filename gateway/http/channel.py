"""The sending side of one HTTP exchange."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from starlette.datastructures import Headers
from starlette.types import Message, Send

from gateway.http.body import ClientGone


class Channel:
    """Sends an answer, and gives up on a client that has stopped reading.

    Attributes:
        started: status and headers are sent.
        status: of HTTP, once it is sent.
        give_up_at: loop time from which a send that cannot proceed is abandoned.
        gone: the client has left, as somebody else has seen.
        headers: of every answer, whatever it is.
        before_end: is awaited before the last of the answer is sent.
    """

    def __init__(self, send: Send, give_up_at: float) -> None:
        self.started = False
        self.status: int | None = None
        self.give_up_at = give_up_at
        self.gone = False
        self.headers: dict[str, str] = {}
        self.before_end: Callable[[], Awaitable[None]] | None = None
        self._send_message = send

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Every method raises ClientGone when the client has left, or has not read until `give_up_at`."""
        self.started, self.status = True, status
        raw = Headers({**headers, **self.headers}).raw
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, body: bytes, *, more: bool) -> None:
        if not more and self.before_end is not None:
            await self.before_end()
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
        if more:
            # Whatever a client takes at once, or will never take, is sent without any waiting: others would
            # stand still until all of an answer is made, and nobody would hear that its client has left.
            await asyncio.sleep(0)

    async def _send(self, message: Message) -> None:
        if self.gone:
            raise ClientGone
        try:
            async with asyncio.timeout_at(self.give_up_at):
                await self._send_message(message)
        except TimeoutError:
            raise ClientGone from None
