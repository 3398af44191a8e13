"""One at a time, over all pods that share a volume."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from worker.fetch.failure import FetchError

log = structlog.get_logger()

_LOOK_S, _TELL_S = 0.5, 60.0

# A file system that knows no locks says one of these.
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Waits for the lock and holds it. The kernel lets go of it when the process dies, however it does.

    Yields:
        False: this volume has no locks, so that others may do the same at the same time.

    Raises:
        FetchError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o664)
    except OSError as error:
        raise FetchError(
            f"{path}: {error.strerror}: fetch needs a cache that it can write to; with HF_HUB_OFFLINE=1 "
            "it only looks whether the checkpoint is there"
        ) from None
    try:
        yield _take(file, path)
    finally:
        os.close(file)


def _take(file: int, path: Path) -> bool:
    begun = told = time.monotonic()
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            now = time.monotonic()
            if told == begun or now - told >= _TELL_S:
                log.info(
                    "another one is downloading it: waiting", waited_s=round(now - begun), lock=str(path)
                )
                told = now
            time.sleep(_LOOK_S)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise FetchError(f"{path}: {error.strerror}") from None
            log.warning("this volume has no locks: others may download the same", lock=str(path))
            return False
