"""Arithmetic of `messages.Work`."""

from __future__ import annotations

from collections.abc import Iterable

from dllm_stack.messages import Work

NONE = Work()


def total(works: Iterable[Work]) -> Work:
    forwards = steps = edits = 0
    for work in works:
        forwards += work.forwards
        steps += work.steps
        edits += work.edits
    return Work(forwards=forwards, steps=steps, edits=edits)
