"""What a stream tells a client that waits, so that nothing between them takes it for dead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dllm_stack.queue import Position


class KeepAlive:
    """
    Args:
        period_s: how long a stream may be silent; 0: as long as it likes.
        position: asks where in the queue the request is; None: not to be told.
    """

    def __init__(self, period_s: float, position: Callable[[], Awaitable[Position | None]] | None) -> None:
        self._period_s = period_s
        self._position = position
        self._loop = asyncio.get_running_loop()
        self.sent()

    def sent(self) -> None:
        """Something was sent just now."""
        self._due = self._loop.time() + self._period_s

    async def wait(self, change: Awaitable[None]) -> bool:
        """Waits for a change. False: the stream has been silent for too long before there was one."""
        try:
            async with asyncio.timeout_at(self._due if self._period_s else None):
                await change
        except TimeoutError:
            return False
        return True

    async def comment(self) -> bytes:
        position = await self._position() if self._position is not None else None
        if position is None:
            return b": waiting\n\n"
        return b": position %d of %d\n\n" % position
