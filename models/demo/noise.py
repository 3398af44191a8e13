"""Noised copies of rows: answer tokens masked, and some of the visible ones replaced by wrong ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.demo.shape import BLOCK_SIZE

# A block is one of three: unmasked, as an engine sees it when only edits are left; wholly masked, as it
# sees every block first; or masked in part.
_UNMASKED_SHARE = 0.15
_WHOLLY_MASKED_SHARE = 0.2
_LEAST_MASKED = 0.05

# Half of the blocks, and all unmasked ones, hold wrong tokens: up to this share of what is visible.
_WRONG_BLOCKS_SHARE = 0.5
_MOST_WRONG = 0.3

# Of a right visible token's loss: editing must leave it alone, but it is easily learned.
_KEPT_WEIGHT = 0.2


@dataclass(frozen=True)
class Noised:
    ids: Tensor  # [rows, tokens]
    weights: Tensor  # [rows, tokens], of each position's loss


def noise(
    ids: Tensor, answer: Tensor, mask_id: int, vocab_size: int, generator: torch.Generator | None = None
) -> Noised:
    """Random noise for rows [rows, tokens] of whole blocks. What is no answer stays as it is, without loss.

    A masked position weighs 1 / (its block's masked share), so that each block counts the same however
    much of it is masked: the weighting of the diffusion bound.
    """
    device, shape = ids.device, ids.shape
    blocks = (shape[0], shape[1] // BLOCK_SIZE)

    def uniform(size: tuple[int, ...]) -> Tensor:
        return torch.rand(size, device=device, generator=generator)

    kind = uniform(blocks)
    unmasked = kind < _UNMASKED_SHARE
    masked_share = _LEAST_MASKED + (1 - _LEAST_MASKED) * uniform(blocks)
    masked_share = masked_share.masked_fill(kind > 1 - _WHOLLY_MASKED_SHARE, 1.0).masked_fill(unmasked, 0.0)
    wrong_share = _MOST_WRONG * uniform(blocks)
    wrong_share *= unmasked | (uniform(blocks) < _WRONG_BLOCKS_SHARE)

    masked_share, wrong_share = _per_token(masked_share), _per_token(wrong_share)
    is_answer = answer.bool()
    masked = is_answer & (uniform(tuple(shape)) < masked_share)
    wrong = is_answer & ~masked & (uniform(tuple(shape)) < wrong_share)

    # Half of the wrong tokens come from elsewhere in the row: a model's own mistakes look likely too.
    anything = torch.randint(vocab_size, shape, device=device, generator=generator)
    elsewhere = ids.gather(1, torch.randint(shape[1], shape, device=device, generator=generator))
    mistakes = torch.where(uniform(tuple(shape)) < 0.5, anything, elsewhere)

    noised = torch.where(wrong, mistakes, ids).masked_fill(masked, mask_id)
    visible_weight = torch.where(noised != ids, 1.0, _KEPT_WEIGHT)
    weights = torch.where(masked, 1 / masked_share.clamp(min=_LEAST_MASKED), visible_weight) * is_answer
    return Noised(noised, weights)


def _per_token(per_block: Tensor) -> Tensor:
    return per_block.repeat_interleave(BLOCK_SIZE, 1)
