"""The folder of a stack's logs: it goes once nobody is inside any more."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dllm_stack.local import logs

_PROGRAM = """
import time
from dllm_stack.local import logs
with logs.folder() as folder:
    (folder / "some.log").write_text("some")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


@contextmanager
def another() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process with such a folder."""
    with subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_that_of_a_killed_process_goes_when_the_next_one_starts(tmp_path: Path) -> None:
    with another() as (process, killed), another() as (_, alive):
        process.kill()
        process.wait()
        with logs.folder() as own:
            assert not killed.exists()
            assert sorted(tmp_path.iterdir()) == sorted([alive, own])
            assert (alive / "some.log").read_text() == "some"
    assert own.exists(), "what it says of a start that failed is to be read"
    with logs.folder() as last:
        assert list(tmp_path.iterdir()) == [last]


def test_whatever_else_has_such_a_name_stays(tmp_path: Path) -> None:
    with logs.folder() as some:
        prefix = some.name[: -len("12345678")]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link, file = tmp_path / f"{prefix}link", tmp_path / f"{prefix}file"
    link.symlink_to(elsewhere)
    file.touch()
    with logs.folder() as own:
        assert sorted(tmp_path.iterdir()) == sorted([elsewhere, link, file, own])
