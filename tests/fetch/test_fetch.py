"""`dllm-stack fetch` on a fake hub: what it brings, and what can go wrong."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants, snapshot_download

from dllm_stack.settings import WorkerSettings
from tests.fetch.fake_hub import COMMIT, HUB_ID, TOKEN, FakeHub, checkpoint, serving
from worker.engine import catalog
from worker.engine.checkpoint import locate
from worker.fetch import download
from worker.fetch.failure import FetchError, FetchRefused
from worker.fetch.hub import File
from worker.fetch.main import fetch as fetch_in_this_process

WEIGHTS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
NOT_READ = ["pytorch_model.bin", "original/consolidated.safetensors"]

Process = subprocess.Popen[str]


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with serving(FakeHub(checkpoint())) as hub:
        yield hub


class Fetch:
    """Runs the command on one cache."""

    def __init__(self, hub: FakeHub, folder: Path) -> None:
        self.hub = hub
        self.folder = folder
        self.repository = folder / "hub" / f"models--{HUB_ID.replace('/', '--')}"
        self.snapshot = self.repository / "snapshots" / COMMIT
        self.model_file = folder.parent / "model.yaml"
        self.model(revision=COMMIT)

    def model(self, *, checkpoint: str = HUB_ID, revision: str | None, of: str = "LLaDA2MoeModelLM") -> None:
        self.model_file.write_text(
            f"name: some\ncheckpoint: {checkpoint}\n"
            + (f"revision: '{revision}'\n" if revision else "")
            + f"facts: {{architecture: {of}, attention_heads: 4, kv_heads: 2, context_length: 512, "
            "vocab_size: 600, weights_gb: 0.008}\n"
        )

    def start(self, *wrapper: str, **environment: str) -> Process:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("HF_", "DLLM_"))
        }
        settings = {
            "HF_HOME": str(self.folder),
            "HF_ENDPOINT": self.hub.url,
            "DLLM_WORKER__MODEL": str(self.model_file),
            "NO_PROXY": "127.0.0.1",
        }
        return subprocess.Popen(
            [*wrapper, sys.executable, "-m", "dllm_stack.cli", "fetch"],
            env=inherited | settings | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, **settings: str) -> None:
        """In this process, which knows already where the hub and the cache are."""
        fetch_in_this_process(WorkerSettings(model=str(self.model_file), **settings))

    def check(self) -> None:
        """All that an engine reads is there, right, and once, and huggingface_hub finds it."""
        cache = self.folder / "hub"
        assert snapshot_download(HUB_ID, revision=COMMIT, cache_dir=cache, local_files_only=True) == str(
            self.snapshot
        )
        there = {
            str(path.relative_to(self.snapshot)): path.read_bytes()
            for path in self.snapshot.rglob("*")
            if path.is_file()
        }
        assert there == {path: data for path, data in self.hub.files.items() if path not in NOT_READ}
        assert not list(self.folder.rglob("*.incomplete"))


@pytest.fixture(name="fetch")
def _fetch(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fetch:
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache" / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return Fetch(hub, tmp_path / "cache")


def test_what_an_engine_reads_is_downloaded_once(fetch: Fetch) -> None:
    fetch.run()
    fetch.check()
    assert not any(path in fetch.hub.asked for path in NOT_READ)

    asked = dict(fetch.hub.asked)
    fetch.run()
    assert dict(fetch.hub.asked) == asked  # not even for a list


def test_a_killed_download_is_gone_on_with(fetch: Fetch) -> None:
    fetch.hub.slow = True
    process = fetch.start()
    for _ in WEIGHTS:
        assert fetch.hub.waiting.acquire(timeout=200)
    partial = [fetch.repository / "blobs" / f"{fetch.hub.digest(path)}.incomplete" for path in WEIGHTS]
    while not all(path.stat().st_size for path in partial):
        assert process.poll() is None
    process.kill()
    process.communicate()
    sizes = [path.stat().st_size for path in partial]
    abandoned = fetch.repository / "blobs" / "0123.4567.incomplete"  # by huggingface_hub, long ago
    abandoned.touch()
    os.utime(abandoned, (0, 0))

    fetch.hub.go_on.set()
    process = fetch.start()
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 0, said
    assert "gb=0.008 " in said
    assert f"gb_there={sum(sizes) / 1e9:.3f}" in said
    assert [fetch.hub.asked[path] for path in WEIGHTS] == [[0, size] for size in sizes]
    fetch.check()


def test_two_at_once_download_once(fetch: Fetch) -> None:
    fetch.hub.slow = True
    first = fetch.start()
    assert fetch.hub.waiting.acquire(timeout=200)
    second = fetch.start()
    assert second.stdout is not None
    assert "waiting" in second.stdout.readline()
    fetch.hub.go_on.set()
    assert (first.wait(200), second.wait(200)) == (0, 0)
    assert "another one has downloaded it" in second.communicate()[0]
    first.communicate()
    assert [fetch.hub.asked[path] for path in WEIGHTS] == [[0], [0]]
    fetch.check()


def test_one_that_waits_takes_over_from_one_that_is_killed(fetch: Fetch) -> None:
    fetch.hub.slow = True
    first = fetch.start()
    for _ in WEIGHTS:
        assert fetch.hub.waiting.acquire(timeout=200)
    second = fetch.start()
    assert second.stdout is not None
    assert "waiting" in second.stdout.readline()
    first.kill()
    first.communicate()
    fetch.hub.go_on.set()
    said = second.communicate(timeout=200)[0]
    assert second.returncode == 0, said
    fetch.check()


def test_it_ends_at_once_on_sigterm(fetch: Fetch) -> None:
    fetch.hub.slow = True
    process = fetch.start()
    assert fetch.hub.waiting.acquire(timeout=200)
    process.terminate()
    process.communicate(timeout=200)
    assert process.returncode == 128 + signal.SIGTERM


def test_a_folder_that_is_not_there_is_named(fetch: Fetch) -> None:
    process = fetch.start(DLLM_WORKER__CHECKPOINT="/models/mine")
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 2
    assert said.startswith("/models/mine: no such folder")


def test_a_hub_that_does_not_answer_is_named(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(FetchError, match="does not answer"):
        fetch.run()


def test_a_hub_that_is_busy_is_asked_again(fetch: Fetch) -> None:
    fetch.hub.busy = 3
    fetch.run()
    fetch.check()


def test_a_volume_that_is_too_small(fetch: Fetch) -> None:
    small = ("unshare", "--mount", "--map-root-user", "sh", "-c")
    mount = f'mkdir -p {fetch.folder} && mount -t tmpfs -o size=5m none {fetch.folder} && exec "$@"'
    if subprocess.run([*small, "true"], capture_output=True).returncode:
        pytest.skip("a file system of one's own cannot be mounted here")
    process = fetch.start(*small, mount, "sh")
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 1
    assert "0.008 GB are to be downloaded" in said
    assert "0.005 GB free" in said
    assert not any(path in fetch.hub.asked for path in WEIGHTS)


def test_a_volume_that_others_fill(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: download._Download, file: File) -> bool:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "blob")

    with monkeypatch.context() as patched:
        patched.setattr(download._Download, "_try", full)
        with pytest.raises(FetchError, match="blob: the volume is full"):
            fetch.run()
    fetch.run()
    fetch.check()


def test_a_connection_that_is_cut_is_made_again(fetch: Fetch) -> None:
    fetch.hub.cuts = 1
    fetch.run()
    assert any(len(fetch.hub.asked[path]) == 2 and fetch.hub.asked[path][1] for path in WEIGHTS)
    fetch.check()


def test_a_hub_without_ranges_begins_anew(fetch: Fetch) -> None:
    fetch.hub.cuts, fetch.hub.ranges = 1, False
    fetch.run()
    fetch.check()


def test_a_volume_without_locks(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(file: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", unknown)
    fetch.run()
    fetch.check()


def test_a_volume_without_links(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(self: Path, target: str) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "symlink_to", unknown)
    fetch.run()
    fetch.check()
    shutil.rmtree(fetch.repository / "dllm-stack")
    fetch.run()
    assert [fetch.hub.asked[path] for path in WEIGHTS] == [[0], [0]]


def test_what_is_not_what_the_hub_says_is_not_kept(fetch: Fetch) -> None:
    fetch.hub.lies = True
    with pytest.raises(FetchError, match="has not the hash that the hub says"):
        fetch.run()
    assert not fetch.snapshot.exists()

    fetch.hub.lies = False
    fetch.run()
    fetch.check()


def test_a_beginning_that_is_broken_is_not_gone_on_with(fetch: Fetch) -> None:
    partial = fetch.repository / "blobs" / f"{fetch.hub.digest(WEIGHTS[0])}.incomplete"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"broken")
    fetch.run()
    assert fetch.hub.asked[WEIGHTS[0]] == [6, 0]
    fetch.check()


def test_a_gated_checkpoint_needs_a_token(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch.hub.gated = True
    with pytest.raises(FetchRefused, match="HF_TOKEN"):
        fetch.run()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    fetch.run()
    fetch.check()


@pytest.mark.parametrize("revision", [None, "main", "v1.0"])
def test_code_runs_only_of_a_pinned_revision(fetch: Fetch, revision: str | None) -> None:
    fetch.model(revision=revision)
    with pytest.raises(FetchRefused, match=f"{HUB_ID}: .*its revision must be pinned"):
        fetch.run()
    assert not fetch.hub.asked


def test_a_checkpoint_in_place_of_the_pinned_one_is_not_pinned(fetch: Fetch) -> None:
    with pytest.raises(FetchRefused, match=r"a model file with `checkpoint: others/one`"):
        fetch.run(checkpoint="others/one")


def test_a_revision_that_there_is_not(fetch: Fetch) -> None:
    fetch.model(revision="6" * 40)
    with pytest.raises(FetchRefused, match=f"no revision {'6' * 40}"):
        fetch.run()


def test_one_that_brings_no_code_may_follow_a_branch(fetch: Fetch) -> None:
    fetch.model(revision=None, of="Qwen3ForCausalLM")
    fetch.run()
    fetch.check()
    assert (fetch.repository / "refs" / "main").read_text() == COMMIT


def test_without_network_it_looks_whether_all_was_copied(
    fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as offline:
        offline.setattr(constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(FetchError, match=r"config.json, "):
            fetch.run()
    fetch.run()
    shutil.rmtree(fetch.repository / "dllm-stack")  # as after another program's download
    with monkeypatch.context() as offline:
        offline.setattr(constants, "HF_HUB_OFFLINE", True)
        fetch.run()
        (fetch.snapshot / WEIGHTS[1]).unlink()
        with pytest.raises(FetchError, match=WEIGHTS[1]):
            fetch.run()
    fetch.run()  # its content is still there
    assert len(fetch.hub.asked[WEIGHTS[1]]) == 1
    fetch.check()


@pytest.mark.parametrize("checkpoint", ["demo:", "tiny:", "{tmp}"])
def test_what_is_on_the_machine_is_not_downloaded(fetch: Fetch, checkpoint: str, tmp_path: Path) -> None:
    fetch.run(checkpoint=checkpoint.format(tmp=tmp_path))
    assert not fetch.folder.exists()


def test_the_worker_takes_what_was_fetched(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    model = catalog.load_model(str(fetch.model_file))
    assert locate(model) == HUB_ID
    fetch.run()
    assert locate(model) == str(fetch.snapshot)
    assert locate(model, "others/one") == "others/one"
    (fetch.snapshot / "config.json").unlink()
    assert locate(model) == HUB_ID
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert locate(model) == str(fetch.snapshot)
