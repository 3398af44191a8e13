"""Waiting for a condition, where a sleep would be a guess."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


async def eventually(condition: Callable[[], Awaitable[bool]], within_s: float = 120.0) -> float:
    """Waits until a condition holds; returns how long that took, in seconds."""
    began = time.monotonic()
    while not await condition():
        elapsed = time.monotonic() - began
        assert elapsed < within_s, f"still not true after {within_s} s"
        await asyncio.sleep(0.01)
    return time.monotonic() - began
