"""What an algorithm is given, and what it answers.

An algorithm is a pure function of tensors over all of its rows at once. It keeps nothing of a request: what
has to live from step to step is in `carried`, which belongs to the rows.

Shapes: B rows of this algorithm in the batch, L tokens of a block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

Carried = dict[str, Tensor]


@dataclass(frozen=True)
class Block:
    """The rows before a step, with what the model has just said of them.

    Attributes:
        ids: int64 [B, L].
        masked: bool [B, L]; what has to be committed.
        fixed: bool [B, L]; the prompt's, never to be touched.
        token: int64 [B, L]; the best token of each position (the drawn one, if the request samples).
        probability: float32 [B, L]; of `token`.
        entropy: float32 [B, L]; of the position, nats.
        logit: float32 [B, L]; of `token`.
        normalizer: float32 [B, L]; logarithm of the sum of the exponentials of all logits.
        logits_of: logits of given tokens, int64 [B, L, K] to float32 [B, L, K].
    """

    ids: Tensor
    masked: Tensor
    fixed: Tensor
    token: Tensor
    probability: Tensor
    entropy: Tensor
    logit: Tensor
    normalizer: Tensor
    logits_of: Callable[[Tensor], Tensor]


class Change(NamedTuple):
    """
    Attributes:
        ids: int64 [B, L]; after the step.
        done: bool [B]; the block is finished, and this forward has stored its KV. A row with masks before the
            step, or with ids that the step has changed, is not done, whatever is said here.
    """

    ids: Tensor
    done: Tensor


class Algorithm(ABC):
    """
    Attributes:
        defaults: each parameter with its default. They are numbers, and reach `step` as float32 [B, 1]. One
            called `max_steps` limits the denoise steps of a block; in the last of them all masks are filled.
        samples: whether `token` may be drawn instead of the most probable one.
        only_fills: a row is done exactly when nothing of it was masked before the step, as `fill` says. The
            decoder then knows so before the forward that stores the KV, and does not wait for that.
    """

    defaults: ClassVar[Mapping[str, float]] = {}
    samples: ClassVar[bool] = False
    only_fills: ClassVar[bool] = False

    def check(self, parameters: Mapping[str, Any]) -> None:
        """Refuses a request's parameters. They are numbers, and `max_steps` is in its range.

        Raises:
            ValueError: a sentence that begins with the name of the one that is wrong.
        """
        for name in parameters:
            if name not in self.defaults:
                takes = ", ".join(sorted(self.defaults)) or "none"
                raise ValueError(f"{name} is not a parameter of this algorithm, which takes {takes}")

    def penalty(self, parameters: Mapping[str, float]) -> float:
        """What a request's rows take, before anything else, from the logit that each position gives to the
        token on its left.
        """
        return 0.0

    def begin(self, rows: int, length: int) -> Mapping[str, Tensor]:
        """`carried` of new blocks, on the CPU; the first dimension is `rows`."""
        return {}

    @abstractmethod
    def step(self, block: Block, parameters: Mapping[str, Tensor], carried: Carried) -> Change:
        """One denoise step of every row. Updates `carried` in place or by new tensors of the same shape."""


def most(value: Tensor, among: Tensor) -> Tensor:
    """Of each row the position with the greatest value, the first of equals; none where none is among.

    Args:
        value: float32 [B, L].
        among: bool [B, L].

    Returns:
        bool [B, L].
    """
    best = value.masked_fill(~among, float("-inf")).argmax(dim=1, keepdim=True)
    return among.new_zeros(among.shape).scatter_(1, best, True) & among


def at_least_one(chosen: Tensor, block: Block) -> Tensor:
    """`chosen`, and in a row without any the most confident masked position: each step must commit."""
    return chosen | (most(block.probability, block.masked) & ~chosen.any(dim=1, keepdim=True))


def fill(block: Block, chosen: Tensor) -> Change:
    """Commits the best tokens of the chosen positions; the row is done if nothing was masked."""
    return Change(torch.where(chosen, block.token, block.ids), ~block.masked.any(dim=1))
