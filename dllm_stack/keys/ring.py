"""What a gateway knows of keys and tenants, a moment old at most."""

from __future__ import annotations

import asyncio
import time

import structlog

from dllm_stack.keys.directory import Directory, Refusal
from dllm_stack.keys.sources import Source
from dllm_stack.keys.store import LEASE_S
from dllm_stack.redis import RedisError
from dllm_stack.tenants import Key, Tenant

LOOK_EVERY_S = 0.25
FRESH_S = 0.75  # what was read longer ago is read again before it is used

log = structlog.get_logger()


class KeyRing:
    """
    A revoked key opens nothing FRESH_S after, and while the source is not to be reached those known go on
    for LEASE_S at most.

    Attributes:
        directory: empty until it has been read.
        source: where it is read from.
    """

    def __init__(self, source: Source) -> None:
        self.directory = Directory()
        self.source = source
        self._read_at: float | None = None  # monotonic; when the last reading that succeeded began
        self._reading: asyncio.Task[None] | None = None

    @property
    def age_s(self) -> float:
        """Since the directory was last known to be true."""
        return float("inf") if self._read_at is None else time.monotonic() - self._read_at

    def find(self, secret: str) -> Key | Refusal:
        """See `Directory.find`."""
        return self.directory.find(secret, time.time())

    def tenant(self, name: str) -> Tenant | None:
        return self.directory.tenants.get(name)

    async def freshen(self) -> bool:
        """To be awaited before the ring is asked. False: it can say who had a key a while ago, no more.

        Raises:
            RedisError: what is known is too old, and nothing newer can be had.
            KeyFileError: nothing is known, and the file cannot be used.
        """
        for _ in range(2):  # a reading under way may have begun too early
            if self.age_s <= FRESH_S:
                return True
            try:
                await self.refresh()
            except RedisError:
                if self.age_s > LEASE_S:
                    raise
                return False
        return self.age_s <= FRESH_S

    async def refresh(self) -> None:
        """Reads now; whoever comes while that is under way waits for the same reading.

        Raises:
            RedisError
        """
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(_seen)
        await asyncio.shield(self._reading)

    async def keep_fresh(self) -> None:
        """A step to be repeated for ever."""
        await self.refresh()
        await asyncio.sleep(LOOK_EVERY_S)

    async def aclose(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        try:
            await self.source.leave()
        except RedisError:
            log.warning("left the key store unannounced: redis is unreachable")

    async def _read(self) -> None:
        again = True
        while again:
            began = time.monotonic()
            known = None if self._read_at is None else self.directory
            self.directory, again = await self.source.read(known, self.age_s)
            self._read_at = began


def _seen(reading: asyncio.Task[None]) -> None:
    """Whoever waited for it may be gone; asyncio would complain of an error that nobody has looked at."""
    if not reading.cancelled():
        reading.exception()
