"""A checkpoint's folder in the Hugging Face cache, laid out as huggingface_hub does, so that all can read it:

models--ORG--NAME/blobs/HASH                      what a file holds, by its hash on the hub
models--ORG--NAME/snapshots/COMMIT/PATH           links to them
models--ORG--NAME/refs/BRANCH                     the commit it was
models--ORG--NAME/dllm-stack/COMMIT.json          ours: path -> bytes, written when all of them are there
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from pathlib import Path

import structlog
from huggingface_hub import constants

from worker.fetch.failure import FetchError
from worker.fetch.hub import File, Snapshot, is_commit

log = structlog.get_logger()

PARTIAL = ".incomplete"

# Nobody writes any more to a partial file that is this old, and that no download of ours would go on with.
_ABANDONED_S = 3600.0


class Repository:
    def __init__(self, hub_id: str) -> None:
        self.hub_id = hub_id
        self.folder = Path(constants.HF_HUB_CACHE) / f"models--{hub_id.replace('/', '--')}"
        self.own = self.folder / "dllm-stack"

    def fetched(self, revision: str | None) -> Path | None:
        """The folder of a snapshot that is complete, or with which one has to do without network."""
        commit = self._commit(revision or "main") if constants.HF_HUB_OFFLINE else revision
        if commit is None or not is_commit(commit):
            return None
        snapshot = self._snapshot(commit)
        return (
            snapshot if self.is_complete(commit) or (constants.HF_HUB_OFFLINE and snapshot.is_dir()) else None
        )

    def is_complete(self, revision: str) -> bool:
        """Whether every file is there, as `finish` has left it. A branch may be another commit by now."""
        if not is_commit(revision):
            return False
        try:
            sizes = json.loads((self.own / f"{revision}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return all(_size(self._snapshot(revision) / path) == size for path, size in sizes.items())

    def check_copied(self, revision: str) -> None:
        """Looks for the files that a checkpoint names itself, where the hub cannot be asked.

        Raises:
            FetchError: naming those that are missing.
        """
        commit = self._commit(revision)
        if commit is None:
            raise FetchError(f"{self.folder}: {revision} of {self.hub_id} is not in this cache")
        snapshot = self._snapshot(commit)
        index = snapshot / "model.safetensors.index.json"
        expected = {"config.json", "tokenizer_config.json"}
        try:
            expected |= set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except FileNotFoundError:
            expected.add("model.safetensors")
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise FetchError(f"{index}: cannot be read: {error}") from None
        if missing := sorted(name for name in expected if _size(snapshot / name) is None):
            named = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
            raise FetchError(f"{snapshot}: not there, and HF_HUB_OFFLINE forbids to download: {named}")

    def missing(self, snapshot: Snapshot) -> list[File]:
        """Files whose content is neither under its hash nor, on a volume without links, in the snapshot; of
        several with the same content only one."""
        folder = self._snapshot(snapshot.commit)
        missing = {
            file.digest: file
            for file in snapshot.files
            if _size(self.blob(file)) != file.size and _size(folder / file.path) != file.size
        }
        return list(missing.values())

    def blob(self, file: File) -> Path:
        return self.folder / "blobs" / file.digest

    def partial(self, file: File) -> Path:
        """Where it is while it is downloaded."""
        return self.blob(file).with_name(file.digest + PARTIAL)

    def finish(self, snapshot: Snapshot, revision: str) -> None:
        """Every blob is there: makes a snapshot of them."""
        folder = self._snapshot(snapshot.commit)
        uses = Counter(file.digest for file in snapshot.files)
        for file in snapshot.files:
            uses[file.digest] -= 1
            if _size(folder / file.path) != file.size:
                _link(folder / file.path, self.blob(file), last=not uses[file.digest])
        if revision != snapshot.commit:
            _write(self.folder / "refs" / revision, snapshot.commit)
        sizes = {file.path: file.size for file in snapshot.files}
        _write(self.own / f"{snapshot.commit}.json", json.dumps(sizes, indent=1))

    def remove_abandoned(self, snapshot: Snapshot) -> None:
        """What downloads that were killed have left and none will go on with."""
        wanted = {self.partial(file) for file in snapshot.files}
        for path in (self.folder / "blobs").glob(f"*{PARTIAL}"):
            try:
                if path in wanted or time.time() - path.stat().st_mtime < _ABANDONED_S:
                    continue
                path.unlink()
            except OSError:  # another one was faster
                continue
            log.info("removed what a killed download has left", file=path.name)

    def _commit(self, revision: str) -> str | None:
        """What a branch or tag was when it was downloaded."""
        if is_commit(revision):
            return revision
        try:
            return (self.folder / "refs" / revision).read_text(encoding="utf-8").strip()
        except OSError:
            return None

    def _snapshot(self, commit: str) -> Path:
        return self.folder / "snapshots" / commit


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _link(path: Path, blob: Path, *, last: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    try:
        path.symlink_to(os.path.relpath(blob, path.parent))
    except FileExistsError:  # only without locks
        return
    except OSError:  # a volume without links
        if last:
            os.replace(blob, path)
        else:
            shutil.copyfile(blob, path)


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(content, encoding="utf-8")
    os.replace(new, path)
