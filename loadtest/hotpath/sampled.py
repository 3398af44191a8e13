"""One service with a sampler inside: `python -m loadtest.hotpath.sampled SERVICE FILE`.

A timer that counts the process's CPU time interrupts it, and the handler notes what Python was at: what waits
is not seen, and what a busy machine does to wall time does not matter. Python gets to the handler between two
of its own steps, so the time of C code counts for the function that has called it. SIGUSR1 begins, SIGUSR2
ends and writes the file.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import msgspec

EVERY_S = 0.001  # of CPU time; the kernel rounds it up to its tick
_DEEPEST = 100

Stack = tuple[tuple[str, str], ...]
"""File and function of each frame, the innermost first."""


class Sampler:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._stacks: Counter[Stack] = Counter()

    def install(self) -> None:
        signal.signal(signal.SIGPROF, self._sample)
        signal.signal(signal.SIGUSR1, lambda *_: self._tick(EVERY_S))
        signal.signal(signal.SIGUSR2, lambda *_: self._write())

    def _tick(self, every_s: float) -> None:
        signal.setitimer(signal.ITIMER_PROF, every_s, every_s)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        stack: list[tuple[str, str]] = []
        while frame is not None and len(stack) < _DEEPEST:
            stack.append((frame.f_code.co_filename, frame.f_code.co_qualname))
            frame = frame.f_back
        self._stacks[tuple(stack)] += 1

    def _write(self) -> None:
        self._tick(0)
        part = self._file.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(list(self._stacks.items())))
        os.replace(part, self._file)


def main() -> None:
    service, file = sys.argv[1:]
    Sampler(Path(file)).install()
    from dllm_stack.cli import app

    app([service])


if __name__ == "__main__":
    main()
