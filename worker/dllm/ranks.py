"""For debugging: whether the GPUs of one engine have come to the same tokens.

Each GPU of a tensor parallel engine runs the decoder for itself. All read the same logits, which SGLang
gathers from all of them, so all commit the same tokens. Did they ever not, each would go on with a KV cache
of another text, and the answers would be wrong without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from worker.dllm.batch import IDS
from worker.dllm.report import Report
from worker.dllm.requests import BlockState

_Row = tuple[str, int, list[int]]
"""Of one request: its id, where its block begins in the sequence, and its numbers of the step's report."""


class RanksDisagree(Exception):
    """Ends the scheduler, and with it the engine."""


class RankCheck:
    """
    Args:
        exchange: gives what every rank has given, in the order of the ranks.
    """

    def __init__(self, exchange: Callable[[Any], list[Any]]) -> None:
        self._exchange = exchange

    def __call__(self, states: Sequence[BlockState], report: Report) -> None:
        """After a step. Waits for the device, and for all ranks.

        Raises:
            RanksDisagree: on every rank alike.
        """
        numbers = report.read(slice(None))
        own: list[_Row] = [
            (state.request.rid, state.start, row) for state, row in zip(states, numbers, strict=True)
        ]
        first, *others = self._exchange(own)
        for rank, other in enumerate(others, start=1):
            if other != first:
                raise RanksDisagree(_difference(first, other, rank))


def of_this_engine() -> RankCheck | None:
    """None: it has one rank only."""
    from sglang.srt.distributed import get_tp_group

    group = get_tp_group()
    if group.world_size == 1:
        return None

    def exchange(own: Any) -> list[Any]:
        everyone: list[Any] = [None] * group.world_size
        torch.distributed.all_gather_object(everyone, own, group=group.cpu_group)
        return everyone

    return RankCheck(exchange)


def _difference(first: Sequence[_Row], other: Sequence[_Row], rank: int) -> str:
    begin = f"dllm-stack: rank 0 and rank {rank} of this engine disagree after a denoise step"
    blocks, others = [row[:2] for row in first], [row[:2] for row in other]
    if blocks != others:
        return f"{begin}: they decode {blocks} and {others} (request, first position of the block)"
    (rid, start, mine), (_, _, theirs) = next((a, b) for a, b in zip(first, other, strict=True) if a != b)
    differing = [
        f"{start + place} is {a} and {b}"
        for place, (a, b) in enumerate(zip(mine[IDS:], theirs[IDS:], strict=True))
        if a != b
    ]
    what = f"token {', '.join(differing)}" if differing else f"{mine[:IDS]} and {theirs[:IDS]} of its report"
    return f"{begin}: request {rid}: {what}"
