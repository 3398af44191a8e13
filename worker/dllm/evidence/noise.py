"""Random numbers that depend on a seed and a token id alone: the same in any batch, on a CPU and a GPU.

The 32-bit mix is Chris Wellons' lowbias32 (https://nullprogram.com/blog/2018/07/31/).
"""

from __future__ import annotations

import torch
from torch import Tensor

SPREAD = 0x9E3779B9  # 2**32 / golden ratio: neighbouring ids differ in all bits
MULTIPLIERS = (0x7FEB352D, 0x846CA68B)
WORD = 0xFFFFFFFF


def position_seeds(request_seeds: Tensor, positions: Tensor) -> Tensor:
    """One number for each position of each request.

    Args:
        request_seeds: int64 [B], any value.
        positions: int64 [B, L], counted from the start of the prompt.

    Returns:
        int64 [B * L] in [0, 2**32).
    """
    low, high = request_seeds & WORD, (request_seeds >> 32) & WORD
    request = _mix(_mix(low) ^ high)
    return _mix(request[:, None] ^ _spread(positions)).flatten()


def gumbel(seeds: Tensor, ids: Tensor) -> Tensor:
    """Standard Gumbel noise, float32 [R, V]. seeds: int64 [R] in [0, 2**32); ids: int64 [V]."""
    return _gumbel_of(uniform(seeds, ids))


def uniform(seeds: Tensor, ids: Tensor) -> Tensor:
    """Numbers in (0, 1), float32 [R, V]; the small ones are as finely spaced as float32 allows."""
    bits = _mix(seeds[:, None] ^ _spread(ids)[None, :])
    return torch.clamp((bits.float() + 0.5) * 2.0**-32, max=1 - 2.0**-24)


def _gumbel_of(uniforms: Tensor) -> Tensor:
    """-log(-log(1 - u)): the large values, which decide a draw, come from small u and are exact there."""
    series = uniforms * (1 + uniforms * (1 / 2 + uniforms * (1 / 3 + uniforms * (1 / 4 + uniforms / 5))))
    exponential = torch.where(uniforms < 1 / 16, series, -torch.log(1 - uniforms))
    return -torch.log(exponential)


def _spread(numbers: Tensor) -> Tensor:
    return (numbers * SPREAD) & WORD


def _mix(words: Tensor) -> Tensor:
    """int64 holds the 32-bit words: a product may overflow, its low half is right."""
    words = words ^ (words >> 16)
    words = (words * MULTIPLIERS[0]) & WORD
    words = words ^ (words >> 15)
    words = (words * MULTIPLIERS[1]) & WORD
    return words ^ (words >> 16)
