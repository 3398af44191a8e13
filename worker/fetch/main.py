"""What the command does: whatever the worker of these settings will read is there when it ends with 0.

Any number may run at once on one volume: the first downloads, the others wait for it.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

import structlog
from huggingface_hub import constants

from dllm_stack import log as logs
from dllm_stack.settings import Settings, WorkerSettings
from worker.engine import catalog, checkpoint
from worker.engine.architectures import NEEDS_REMOTE_CODE
from worker.engine.catalog import CatalogError, Model
from worker.engine.checkpoint import CheckpointError
from worker.fetch import download, hub
from worker.fetch.cache import Repository
from worker.fetch.failure import FetchError, FetchRefused
from worker.fetch.lock import locked

log = structlog.get_logger()


def run(settings: Settings) -> None:
    """Downloads the checkpoint of the settings' model, if it is on the hub and not here.

    Raises:
        SystemExit: 2 when the settings cannot work, 1 when the download failed; why is then on stderr. What
            was downloaded stays, and the next try goes on from there.
    """
    logs.configure(settings, "fetch")
    signal.signal(signal.SIGTERM, _leave)
    try:
        fetch(settings.worker)
    except (CatalogError, CheckpointError, FetchRefused) as refusal:
        print(refusal, file=sys.stderr)
        raise SystemExit(2) from None
    except FetchError as failure:
        print(failure, file=sys.stderr)
        raise SystemExit(1) from None


def _leave(number: int, frame: FrameType | None) -> None:
    """SIGTERM alone does not end the first process of a container. Nothing needs to be tidied up."""
    os._exit(128 + number)


def fetch(settings: WorkerSettings) -> None:
    """Raises CatalogError, CheckpointError, FetchRefused or FetchError."""
    model = catalog.load_model(settings.model)
    name = settings.checkpoint or model.checkpoint
    location = name if name in checkpoint.OWN else checkpoint.folder_or_hub_id(name)
    if location in checkpoint.OWN or os.path.isabs(location):
        log.info("nothing to download", checkpoint=location)
        return
    revision = _revision(model, location)
    repository = Repository(location)
    if repository.is_complete(revision):
        log.info("already there", checkpoint=location, revision=revision)
        return
    if constants.HF_HUB_OFFLINE:
        repository.check_copied(revision)
        log.info("already there", checkpoint=location, revision=revision, checked="by its index")
        return
    with locked(repository.own / "lock") as alone:
        if repository.is_complete(revision):
            log.info("another one has downloaded it", checkpoint=location, revision=revision)
            return
        snapshot = hub.snapshot(location, revision)
        download.all_files(repository, snapshot, alone=alone)
    log.info("downloaded", checkpoint=location, revision=snapshot.commit, gb=round(snapshot.size / 1e9, 3))


def _revision(model: Model, location: str) -> str:
    """Raises FetchRefused: code of the checkpoint would run, and it is not said which."""
    given = location == model.checkpoint
    revision = model.revision if given else None
    runs_code = not given or model.facts is None or model.facts.architecture in NEEDS_REMOTE_CODE
    if runs_code and not hub.is_commit(revision):
        where = "its model file" if given else f"a model file with `checkpoint: {location}`"
        raise FetchRefused(
            f"{location}: the engine may run code that this checkpoint brings, so its revision must be "
            f"pinned: write `revision:` with a commit's 40 digits into {where}"
            + (f", instead of {revision!r}" if revision else "")
        )
    return revision or "main"
