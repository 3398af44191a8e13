"""An SGLang server that somebody else runs."""

from __future__ import annotations

import asyncio


class AttachedEngine:
    """It is watched by its health alone, and never stopped."""

    def __init__(self, url: str) -> None:
        self.url = url

    def watch_children(self) -> None: ...

    async def ended(self) -> str:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def stop(self) -> None: ...

    def tail(self) -> str:
        return ""
