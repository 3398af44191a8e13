"""Figures and foreign text, as people read them on a terminal."""

from __future__ import annotations

NOTHING = "-"


def duration(seconds: float) -> str:
    """Two digits are enough: 0.4 s, 12 s, 3 min, 5 h, 90 d."""
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86_400:.0f} d"


def size(count: int) -> str:
    """Bytes, with two digits or more."""
    amount, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if amount >= 10 or unit == "B" else f"{amount:.1f} {unit}"


def number(count: int) -> str:
    return str(count) if count else NOTHING


def harmless(text: str) -> str:
    """Text of others without what could command a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def short_time(seconds: float) -> str:
    """Also of less than a second: 0.42 ms, 31 ms, 0.4 s, 12 s."""
    if seconds < 0.00995:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else duration(seconds)


def share(part: float) -> str:
    """Of one: 0 %, 0.3 %, 12 %."""
    return f"{part:.0%}" if part == 0 or part >= 0.0995 else f"{part:.1%}"
