"""Memory for the bodies that clients are still sending, over all connections of a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dllm_stack.outcomes import SOON_S, ErrorCode, Problem, RequestError

BODIES = 16  # of the largest size that there is room for

_TAKEN = Problem(
    ErrorCode.GATEWAY_FULL,
    "Too many bodies are being sent here at present, and this one has been under way for the longest time.",
    retry_after_s=SOON_S,
)


class Room:
    """When it is full, the body that was begun first is given up: whoever sends slowly, to hold memory, makes
    room for those who send at once.

    Attributes:
        most_bytes: that there is room for.
        bytes: that are taken.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._shares: dict[Share, None] = {}  # in the order in which they were begun

    @asynccontextmanager
    async def share(self, deadline: float) -> AsyncIterator[Share]:
        """For one body, until all of it is there.

        Args:
            deadline: loop time.

        Raises:
            TimeoutError: the deadline is over.
            RequestError: the room is needed for others.
        """
        share: Share | None = None
        try:
            async with asyncio.timeout_at(deadline) as timeout:
                share = Share(self, timeout)
                self._shares[share] = None
                yield share
        except TimeoutError:
            if share is not None and share not in self._shares:
                raise RequestError(_TAKEN) from None
            raise
        finally:
            if share is not None:
                self._release(share)

    def _take(self, share: Share, count: int) -> None:
        if share not in self._shares:
            return
        share.bytes += count
        self.bytes += count
        while self.bytes > self.most_bytes:
            first = next(iter(self._shares))
            self._release(first)
            if not first.timeout.expired():
                first.timeout.reschedule(0)

    def _release(self, share: Share) -> None:
        if share in self._shares:
            del self._shares[share]
            self.bytes -= share.bytes


class Share:
    """
    Attributes:
        bytes: of the body, so far.
        timeout: ends the reading of it.
    """

    def __init__(self, room: Room, timeout: asyncio.Timeout) -> None:
        self.bytes = 0
        self.timeout = timeout
        self._room = room

    def take(self, count: int) -> None:
        """So many more bytes have come."""
        self._room._take(self, count)
