"""What an answer's blocks have cost, as an extension of the answer: `dllm`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from dllm_stack.work import total
from gateway.answer import Answer


class BlockStatistics(msgspec.Struct, frozen=True):
    tokens: int
    forwards: int
    steps: int
    edits: int
    index: int | UnsetType = UNSET  # whose block it is, of several answers; of the same ones, the first


class Statistics(msgspec.Struct, frozen=True):
    """Of what was received: `tokens` are those of `usage`, and the others are sums over `per_block`."""

    blocks: int
    tokens: int
    forwards: int
    steps: int
    edits: int
    tokens_per_forward: float | None
    per_block: list[BlockStatistics]


class Told:
    """Whether an answer tells its statistics."""

    def __init__(self, asked: bool) -> None:
        self._asked = asked

    def of(self, answers: Sequence[Answer]) -> Statistics | UnsetType:
        return statistics_of(answers) if self._asked else UNSET


def statistics_of(answers: Sequence[Answer]) -> Statistics:
    several = len(answers) > 1
    per_block = [
        BlockStatistics(
            cost.tokens,
            cost.work.forwards,
            cost.work.steps,
            cost.work.edits,
            answer.choices[0] if several else UNSET,
        )
        for answer in answers
        for cost in answer.costs
    ]
    tokens = sum(block.tokens for block in per_block)
    work = total(cost.work for answer in answers for cost in answer.costs)
    return Statistics(
        blocks=len(per_block),
        tokens=tokens,
        forwards=work.forwards,
        steps=work.steps,
        edits=work.edits,
        tokens_per_forward=tokens / work.forwards if work.forwards else None,
        per_block=per_block,
    )
