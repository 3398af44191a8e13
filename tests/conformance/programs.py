"""Programs that ask by other people's clients; `requirements/clients.sh` has put those into folders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_PROGRAMS = Path(__file__).parent / "clients"
_FOLDER = Path(sys.prefix) / "clients"


def folder(kind: str) -> Path:
    """Where the clients of one of requirements/clients/ are."""
    found = _FOLDER / kind
    if not (found / ".installed").exists():
        pytest.fail(f"there are no clients in {found}: run make {found}/.installed")
    return found


def pinned(kind: str, package: str) -> str:
    """The version of a package in requirements/clients/."""
    root = Path(__file__).resolve().parents[2] / "requirements" / "clients"
    lines = (root / kind).read_text().split()
    (version,) = [line.removeprefix(package).lstrip("=@") for line in lines if line.startswith(package)]
    return version


def run(kind: str, program: str, asked: object, *, timeout_s: float = 250) -> Any:
    """Gives it `asked` as JSON, and returns the JSON that it writes as its last line."""
    if program.endswith(".mjs"):
        if shutil.which("node") is None:
            pytest.skip("needs Node.js and npm")
        # Node.js looks for packages beside the program, whatever the folder that it runs in.
        command = ["node", str(shutil.copy(_PROGRAMS / program, folder(kind)))]
    else:
        command = [str(folder(kind) / "bin" / "python"), str(_PROGRAMS / program)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        input=json.dumps(asked),
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1])  # LiteLLM prints lines of its own
