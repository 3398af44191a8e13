"""Where a gateway reads keys and tenants from, and what it does when they are lost or broken there."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Protocol

import structlog

from dllm_stack.keys.directory import FORGET_S, Directory
from dllm_stack.keys.file import KeyFileError, parse
from dllm_stack.keys.store import LEASE_S, KeyStore
from dllm_stack.redis import RedisError
from dllm_stack.tenants import Key

_WRITE_BACK_S = FORGET_S - 86_400  # the store forgets revocations, and is not to be told of them then

log = structlog.get_logger()


class Source(Protocol):
    """What a ring reads from.

    Attributes:
        broken: it holds what cannot be used, so what was read before goes on.
        lost: keys that go on though they are not in it any more.
    """

    broken: bool

    @property
    def lost(self) -> int: ...

    async def read(self, known: Directory | None, age_s: float) -> tuple[Directory, bool]:
        """What it holds, and whether to ask again once that is in force.

        Args:
            known: what was read last.
            age_s: since then.

        Raises:
            RedisError: it does not answer.
            KeyFileError: it holds what cannot be used, and nothing is known.
        """

    async def leave(self) -> None: ...


class RedisSource:
    """
    Args:
        ring: the gateway that reads.
    """

    broken = False

    def __init__(self, store: KeyStore, ring: str) -> None:
        self._store = store
        self._ring = ring
        self._change = ""
        self._known = Directory()
        self._lost: list[Key] = []

    @property
    def lost(self) -> int:
        now = time.time()
        return sum(self._known.state(key, now) is None for key in self._lost)

    async def read(self, known: Directory | None, age_s: float) -> tuple[Directory, bool]:
        began = time.monotonic()
        change, found, whole = await self._store.look(self._ring, self._change)
        if found is None:
            assert known is not None
            return known, False
        known = known or Directory()
        if whole:
            if age_s + time.monotonic() - began > LEASE_S:
                # That a key has been revoked which is gone from there may be gone as well.
                known = Directory(revoked=known.revoked, departed=known.departed)
            self._known = known.after_loss(found, time.time())
            if not await self._settle(found):
                return self._known, False  # the next reading tries again
        else:
            self._known = known.and_news(found)
        self._change = change
        return self._known, True  # whoever made the change waits to hear that it is in force

    async def leave(self) -> None:
        await self._store.leave(self._ring)

    async def _settle(self, found: Directory) -> bool:
        """Sees to what Redis has lost. False: it is still to be told of that."""
        known, before = self._known, self.lost
        self._lost = [known.keys[key_id] for key_id in known.keys.keys() - found.keys.keys()]
        if (lost := self.lost) > before:
            log.error("redis has lost keys; those known here go on until this gateway ends", keys=lost)
        try:
            await self._tell_again(known, found)
        except RedisError as error:
            log.warning("redis cannot be told again of revocations that it has lost", error=repr(error))
            return False
        return True

    async def _tell_again(self, known: Directory, found: Directory) -> None:
        """Puts back what closes doors."""
        now = time.time()
        revoked = {
            key_id: revocation
            for key_id, revocation in known.revoked.items()
            if found.revoked.get(key_id) != revocation and now - revocation.at < _WRITE_BACK_S
        }
        departed = {
            name: at
            for name, at in known.departed.items()
            if found.departed.get(name) != at and now - at < _WRITE_BACK_S
        }
        if revoked or departed:
            log.warning(
                "redis has lost revocations; it is told them again",
                keys=sorted(revoked),
                tenants=sorted(departed),
            )
            await self._store.tell(revoked, departed)


class FileSource:
    """A file is looked at as a whole each time: whatever way it is replaced, that shows."""

    lost = 0

    def __init__(self, path: Path) -> None:
        self.broken = False
        self._path = path
        self._text: bytes | None = None
        self._why = ""

    async def read(self, known: Directory | None, age_s: float) -> tuple[Directory, bool]:
        try:
            text = await asyncio.to_thread(self._path.read_bytes)
            if text == self._text and known is not None and not self.broken:
                return known, False
            directory = await asyncio.to_thread(parse, text)
        except OSError as error:
            return self._go_on(known, f"cannot be read: {error.strerror}")
        except KeyFileError as error:
            return self._go_on(known, str(error))
        self._text = text
        if known is not None:
            log.info("the key file has changed", path=str(self._path), keys=len(directory.keys))
        self.broken, self._why = False, ""
        return directory, False

    async def leave(self) -> None: ...

    def _go_on(self, known: Directory | None, why: str) -> tuple[Directory, bool]:
        if known is None:
            raise KeyFileError(f"{self._path} {why}")
        if why != self._why:
            log.error(
                "the key file cannot be used; what it said before goes on", path=str(self._path), why=why
            )
        self.broken, self._why = True, why
        return known, False
