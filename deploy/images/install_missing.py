"""`install_missing.py LOCK`: installs those packages of a lock of which no version is there.

So an image that comes with an engine keeps what the engine was built with, unless a package that is new to it
asks for another version.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def missing(lock: Path) -> dict[str, str]:
    """By name the lines of the lock to be installed."""
    return {name: line for name, line in _lines(lock).items() if _version(name) is None}


def unsuitable(lock: Path, names: Iterable[str]) -> dict[str, str]:
    """By name the lines of the lock that have to take the place of what is there.

    Args:
        names: of packages that were installed from the lock.
    """
    lines = _lines(lock)
    wanted: dict[str, str] = {}
    for each in names:
        for requirement in map(Requirement, metadata.requires(each) or []):
            name = canonicalize_name(requirement.name)
            if name not in lines or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
                continue
            found = _version(name)
            if found is None or not requirement.specifier.contains(found, prereleases=True):
                print(f"{each} needs {requirement}: {found} is replaced by {lines[name]}")
                wanted[name] = lines[name]
    return wanted


def _lines(lock: Path) -> dict[str, str]:
    lines = [line.strip() for line in lock.read_text(encoding="utf-8").splitlines()]
    return {
        canonicalize_name(line.partition("==")[0]): line
        for line in lines
        if line and not line.startswith("#")
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def main(lock: Path) -> None:
    installed: set[str] = set()
    lines = missing(lock)
    while lines:
        subprocess.run([sys.executable, "-m", "pip", "install", "--no-deps", *lines.values()], check=True)
        installed |= lines.keys()
        lines = {name: line for name, line in unsuitable(lock, installed).items() if name not in installed}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
