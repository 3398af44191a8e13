"""Downloads files of a checkpoint, several at a time.

By plain HTTP, though huggingface_hub downloads too: with it (1.33) a file that is interrupted begins anew,
and none is compared with its hash. The files of a large checkpoint have gigabytes each: a killed pod would
lose as many as it had begun, and leave them behind on the volume.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import BinaryIO

import httpx
import structlog
from huggingface_hub.utils import build_hf_headers, get_session  # type: ignore[attr-defined]

from worker.fetch.cache import PARTIAL, Repository
from worker.fetch.failure import FetchError
from worker.fetch.hub import File, Snapshot

log = structlog.get_logger()

_AT_ONCE = 8  # files; as many as huggingface_hub takes
_CHUNK = 1 << 20  # bytes
_TELL_S = 10.0
_TIMEOUT = httpx.Timeout(30.0)

# Tries of a file in a row that bring nothing: a minute and a half of them.
_TRIES = 10
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 30.0
_PASSING = {408, 425, 429, 500, 502, 503, 504}


def all_files(repository: Repository, snapshot: Snapshot, *, alone: bool) -> None:
    """Downloads what is missing, and completes the snapshot.

    Args:
        alone: nobody else downloads into this cache. Else nothing is gone on with that may be another one's.

    Raises:
        FetchError: the hub, the network or the volume fails. What has come stays.
    """
    try:
        repository.remove_abandoned(snapshot)
        missing = repository.missing(snapshot)
        places = {
            file: repository.partial(file)
            if alone
            else repository.blob(file).with_name(f"{file.digest}.{uuid.uuid4().hex[:8]}{PARTIAL}")
            for file in missing
        }
        _Download(repository, snapshot, places).run()
        repository.finish(snapshot, snapshot.revision)
    except OSError as error:
        place = error.filename or repository.folder
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FetchError(f"{place}: the volume is full") from None
        raise FetchError(f"{place}: {error.strerror or error}") from None


class _Download:
    def __init__(self, repository: Repository, snapshot: Snapshot, places: dict[File, Path]) -> None:
        self._repository = repository
        self._snapshot = snapshot
        self._places = places
        self._there = {file: _size(place) for file, place in places.items()}
        self._stop = threading.Event()

    def run(self) -> None:
        if not self._places:
            return
        blobs = self._repository.folder / "blobs"
        blobs.mkdir(parents=True, exist_ok=True)
        wanted, there = sum(file.size for file in self._places), sum(self._there.values())
        free = shutil.disk_usage(blobs).free
        if wanted - there > free:
            raise FetchError(
                f"{self._repository.hub_id}: {(wanted - there) / 1e9:.3f} GB are to be downloaded, and "
                f"{blobs} has {free / 1e9:.3f} GB free: make the volume larger, or remove checkpoints that "
                "nobody needs"
            )
        log.info(
            "downloading",
            checkpoint=self._repository.hub_id,
            revision=self._snapshot.commit,
            files=len(self._places),
            gb=round(wanted / 1e9, 3),
            gb_there=round(there / 1e9, 3),
            gb_free=round(free / 1e9, 3),
        )
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            files = [threads.submit(self._file, file) for file in self._places]
            try:
                self._watch(files, wanted)
            finally:
                self._stop.set()
                for file in files:
                    file.cancel()

    def _watch(self, files: list[Future[None]], wanted: int) -> None:
        then, there = time.monotonic(), sum(self._there.values())
        while True:
            done, going = wait(files, _TELL_S, FIRST_EXCEPTION)
            for file in done:
                file.result()
            if not going:
                return
            now, before = time.monotonic(), there
            there = sum(self._there.values())
            log.info(
                "downloading",
                gb=round(there / 1e9, 3),
                of_gb=round(wanted / 1e9, 3),
                files=f"{len(done)}/{len(files)}",
                mb_s=round((there - before) / 1e6 / (now - then), 1),
            )
            then = now

    def _file(self, file: File) -> None:
        tries, pause_s = 0, _FIRST_PAUSE_S
        while not self._stop.is_set():
            before = self._there[file]
            try:
                if self._try(file):
                    return
                why = "it was cut"
            except httpx.HTTPStatusError as error:
                why = f"HTTP {error.response.status_code}"
                if error.response.status_code not in _PASSING:
                    raise FetchError(f"{file.url}: {why}") from None
            except httpx.TransportError as error:
                why = str(error) or type(error).__name__
            if self._stop.is_set():
                return
            if self._there[file] > before:
                tries, pause_s = 0, _FIRST_PAUSE_S
            tries += 1
            if tries == _TRIES:
                raise FetchError(f"{file.url}: {why}, {tries} times in a row")
            log.warning("tries again", file=file.path, why=why, gb_there=round(self._there[file] / 1e9, 3))
            self._stop.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _try(self, file: File) -> bool:
        """Goes on with a file as far as it comes. True: it is whole, and in the cache.

        Raises:
            FetchError: it is not what the hub says it is.
        """
        place = self._places[file]
        with place.open("ab") as out:
            digest = _digest_of(file, place)
            there = out.tell()
            if there < file.size or not file.size:
                for chunk in self._chunks(file, out):
                    digest.update(chunk)
            whole = out.tell() == file.size
            if whole:
                out.flush()
                os.fsync(out.fileno())
        if not whole:
            if place.stat().st_size > file.size:
                self._remove(file)
            return False
        if digest.hexdigest() != file.digest:
            # Not of this try alone, if there was a beginning: it begins anew.
            self._remove(file)
            if not there:
                raise FetchError(f"{file.url}: what comes has not the hash that the hub says: {file.digest}")
            return False
        os.replace(place, self._repository.blob(file))
        return True

    def _chunks(self, file: File, out: BinaryIO) -> Iterator[bytes]:
        there = out.tell()
        headers = build_hf_headers() | {"Accept-Encoding": "identity"}
        if there:
            headers["Range"] = f"bytes={there}-"
        with get_session().stream("GET", file.url, headers=headers, timeout=_TIMEOUT) as response:
            response.raise_for_status()
            if there and response.status_code != 206:
                out.truncate(0)
                self._there[file] = 0
                raise httpx.ReadError("the hub did not go on with it")
            for chunk in response.iter_bytes(_CHUNK):
                if self._stop.is_set():
                    return
                out.write(chunk)
                self._there[file] += len(chunk)
                yield chunk

    def _remove(self, file: File) -> None:
        self._places[file].unlink(missing_ok=True)
        self._there[file] = 0


def _digest_of(file: File, place: Path) -> hashlib._Hash:
    """Of what is there of it already."""
    digest = hashlib.sha256() if len(file.digest) == 64 else hashlib.sha1(b"blob %d\0" % file.size)
    with place.open("rb") as beginning:
        while chunk := beginning.read(_CHUNK):
            digest.update(chunk)
    return digest


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
