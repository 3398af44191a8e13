"""Files the user gives of one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from dllm_stack.bench.problem import Problem

_Record = TypeVar("_Record")


def read(option: str, file: Path) -> bytes:
    """Raises Problem, naming the option that the file came from."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise Problem(option, f"{file}: {error.strerror}") from None


def records(option: str, file: Path, content: bytes, kind: type[_Record]) -> Iterator[tuple[str, _Record]]:
    """Each with where it stands, for people. Empty lines are left out.

    Raises:
        Problem: naming the line.
    """
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{file}, line {number}"
        try:
            yield where, msgspec.json.decode(line, type=kind)
        except msgspec.MsgspecError as error:
            raise Problem(option, f"{where}: {error}") from None
