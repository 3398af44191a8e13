"""Arithmetic of `messages.Work`."""

from __future__ import annotations

from collections.abc import Iterable

from dllm_stack.messages import Block, Part, Work

NONE = Work()


def total(works: Iterable[Work]) -> Work:
    forwards = steps = edits = 0
    for work in works:
        forwards += work.forwards
        steps += work.steps
        edits += work.edits
    return Work(forwards=forwards, steps=steps, edits=edits)


def parts_of(block: Block) -> list[Part]:
    """The engine's blocks that it is made of."""
    return block.parts or [Part(len(block.token_ids), block.work)]


def beyond(parts: Iterable[Part], tokens: int) -> list[Part]:
    """What of them comes after so many tokens; the work of each is told with its first token."""
    left = []
    for part in parts:
        if tokens < part.tokens:
            left.append(Part(part.tokens - tokens, NONE if tokens else part.work))
        tokens = max(0, tokens - part.tokens)
    return left
