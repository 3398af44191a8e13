"""Where the logs of `up` are: a folder that goes with it, or, if it was killed, once another one starts."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "dllm-stack-up-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextmanager
def folder() -> Iterator[Path]:
    """A new folder, which stays. Folders of which nobody is inside any more are removed first."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # somebody else's, in use, or just removed by another one that starts
            _remove_if_left(left)
    path, lock = _new()
    try:
        yield path
    finally:
        os.close(lock)


def _new() -> tuple[Path, int]:
    """The folder, and a lock on it, which the kernel releases however this process ends."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(FileNotFoundError):
            lock = os.open(path, _FOLDER)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists():  # nobody has taken it for one that was left
                return path, lock
            os.close(lock)


def _remove_if_left(path: Path) -> None:
    """Raises OSError."""
    lock = os.open(path, _FOLDER)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path)
    finally:
        os.close(lock)
