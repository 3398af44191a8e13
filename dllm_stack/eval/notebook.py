"""A file with a line for each question that is done: after kill -9 at any moment it is gone on from."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from dllm_stack.bench.problem import Problem

FORMAT = "dllm-stack eval 1"
_OPTION = "--output"


class Head(msgspec.Struct, frozen=True):
    """The first line.

    Attributes:
        settings: all that changes an answer.
    """

    settings: dict[str, Any]
    format: str = FORMAT


class Done(msgspec.Struct, frozen=True):
    """
    Attributes:
        session: counts the runs that have written here, from 1.
        at_s: seconds since the session began.
        latency_s: from sending the question to its answer, the last attempt's.
        tokens: of the answer, as the server counts them.
        result: None: invalid.
    """

    number: int
    session: int
    at_s: float
    latency_s: float
    tokens: int
    text: str
    result: float | None
    label: float

    @property
    def right(self) -> bool:
        return self.result == self.label


class Notebook:
    """Use as a context manager; one process at a time.

    Args:
        file: None: nothing is kept.

    Attributes:
        done: by the number of the question, also of questions that are not asked this time.
        session: this one's number.

    Raises:
        Problem: it is another exam's, or is being written.
    """

    def __init__(self, file: Path | None, settings: dict[str, Any]) -> None:
        self._file, self._settings = file, settings
        self.done: dict[int, Done] = {}
        self.session = 1

    def __enter__(self) -> Self:
        self._opened = None
        if self._file is None:
            return self
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._opened = self._file.open("a+b", buffering=0)
            fcntl.flock(self._opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Problem(_OPTION, f"another dllm-stack eval is writing {self._file}") from None
        except OSError as error:
            raise Problem(_OPTION, f"{self._file}: {error.strerror}") from None
        self._read(self._file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            self._opened.close()

    def add(self, done: Done) -> None:
        self.done[done.number] = done
        self._write(done)

    def _read(self, file: Path) -> None:
        assert self._opened is not None
        self._opened.seek(0)
        content = self._opened.read()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):  # killed in the middle of a line
            os.ftruncate(self._opened.fileno(), len(whole))
        lines = whole.splitlines()
        if not lines:
            self._write(Head(self._settings))
            return
        try:
            head = msgspec.json.decode(lines[0], type=Head)
            done = [msgspec.json.decode(line, type=Done) for line in lines[1:]]
        except msgspec.MsgspecError as error:
            raise Problem(_OPTION, f"{file} is no file of dllm-stack eval: {error}") from None
        if head.format != FORMAT:
            raise Problem(_OPTION, f"{file} has the format {head.format!r}, and this is {FORMAT!r}")
        for name in head.settings.keys() | self._settings.keys():
            was, wanted = head.settings.get(name), self._settings.get(name)
            if was != wanted:
                raise Problem(_OPTION, f"{file} was begun with {name} {was!r}, and this has {wanted!r}")
        self.done = {each.number: each for each in done}
        self.session = max((each.session for each in done), default=0) + 1

    def _write(self, line: Head | Done) -> None:
        if self._opened is not None:
            self._opened.write(msgspec.json.encode(line) + b"\n")  # one write, at the end
