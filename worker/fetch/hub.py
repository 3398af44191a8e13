"""What the hub says is in a checkpoint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

import httpx
from huggingface_hub import HfApi, constants, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import RepoFile

from worker.fetch.failure import FetchError, FetchRefused

_COMMIT = re.compile(r"[0-9a-f]{40}")

# The same weights in other formats, which SGLang would not read.
_OTHER_WEIGHTS = {".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx", ".ot", ".tflite"}


@dataclass(frozen=True)
class File:
    """One file of a checkpoint.

    Attributes:
        digest: its name in the cache: SHA-256 of a large file, and git's SHA-1 of a small one.
    """

    path: str
    size: int
    digest: str
    url: str


@dataclass(frozen=True)
class Snapshot:
    commit: str
    revision: str  # as it was asked for
    files: list[File]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(file.size for file in self.files)


def is_commit(revision: str | None) -> bool:
    return bool(revision and _COMMIT.fullmatch(revision))


def snapshot(hub_id: str, revision: str) -> Snapshot:
    """The files that an engine reads.

    Raises:
        FetchRefused: there is no such checkpoint, or not for this token.
        FetchError: the hub does not answer.
    """
    api = HfApi()
    try:
        commit = revision if is_commit(revision) else api.model_info(hub_id, revision=revision).sha
        tree = api.list_repo_tree(hub_id, revision=commit, recursive=True)
        found = [entry for entry in tree if isinstance(entry, RepoFile)]
    except (GatedRepoError, RepositoryNotFoundError) as error:
        raise FetchRefused(
            f"{hub_id}: the hub at {constants.ENDPOINT} has no such checkpoint, or not for everybody: "
            "HF_TOKEN must then hold a token that may read it"
        ) from error
    except RevisionNotFoundError as error:
        raise FetchRefused(
            f"{hub_id}: the hub at {constants.ENDPOINT} has no revision {revision} of it"
        ) from error
    except (HfHubHTTPError, httpx.HTTPError, OSError) as error:
        raise FetchError(
            f"{hub_id}: the hub at {constants.ENDPOINT} does not answer: {_first_line(error)}"
        ) from error
    if commit is None:
        raise FetchError(
            f"{hub_id}: the hub at {constants.ENDPOINT} does not say which commit {revision!r} is"
        )
    files = [
        File(
            path=entry.path,
            size=entry.size,
            digest=entry.lfs.sha256 if entry.lfs else entry.blob_id,
            url=hf_hub_url(hub_id, entry.path, revision=commit),
        )
        for entry in found
        if _is_read([each.path for each in found], entry.path)
    ]
    if not files:
        raise FetchRefused(f"{hub_id}: {revision} is empty")
    return Snapshot(commit, revision, files)


def _is_read(all_paths: list[str], path: str) -> bool:
    """A checkpoint may hold its weights two or three times, for other programs."""
    if not any(_is_weights(each) for each in all_paths):
        return True
    if PurePosixPath(path).suffix == ".safetensors":
        return _is_weights(path)
    return PurePosixPath(path).suffix not in _OTHER_WEIGHTS


def _is_weights(path: str) -> bool:
    return "/" not in path and path.endswith(".safetensors")


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
