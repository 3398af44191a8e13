"""Random numbers that depend on a seed and a token id alone: the same in any batch, on a CPU and a GPU.

The 32-bit mix is Chris Wellons' lowbias32 (https://nullprogram.com/blog/2018/07/31/).
"""

from __future__ import annotations

import torch
from torch import Tensor

SPREAD = 0x9E3779B9  # 2**32 / golden ratio: neighbouring ids differ in all bits
MULTIPLIERS = (0x7FEB352D, 0x846CA68B)


def position_seeds(request_seeds: Tensor, positions: Tensor) -> Tensor:
    """One number for each position of each request.

    Args:
        request_seeds: int64 [B], any value.
        positions: int64 [B, L], counted from the start of the prompt.

    Returns:
        int64 [B * L] in [0, 2**32).
    """
    request = _mix(_mix(request_seeds.int()) ^ (request_seeds >> 32).int())
    return _unsigned(_mix(request[:, None] ^ _spread(positions))).flatten()


def gumbel(seeds: Tensor, ids: Tensor) -> Tensor:
    """Standard Gumbel noise, float32 [R, V]. seeds: int64 [R] in [0, 2**32); ids: int64 [V]."""
    return _gumbel_of(uniform(seeds, ids))


def uniform(seeds: Tensor, ids: Tensor) -> Tensor:
    """Numbers in (0, 1), float32 [R, V]; the small ones are as finely spaced as float32 allows."""
    bits = _unsigned(_mix(seeds.int()[:, None] ^ _spread(ids)[None, :]))
    return bits.float().add_(0.5).mul_(2.0**-32).clamp_(max=1 - 2.0**-24)


def _gumbel_of(uniforms: Tensor) -> Tensor:
    """-log(-log(1 - u)): the large values, which decide a draw, come from small u and are exact there."""
    series = uniforms * (1 + uniforms * (1 / 2 + uniforms * (1 / 3 + uniforms * (1 / 4 + uniforms / 5))))
    exponential = torch.where(uniforms < 1 / 16, series, -torch.log(1 - uniforms))
    return -torch.log(exponential)


def _spread(numbers: Tensor) -> Tensor:
    return (numbers * SPREAD).int()


def _mix(words: Tensor) -> Tensor:
    """Words are kept as int32, whose products overflow as unsigned ones do; a shift keeps no sign."""
    words = words ^ ((words >> 16) & 0xFFFF)
    words *= _signed(MULTIPLIERS[0])
    words ^= (words >> 15) & 0x1FFFF
    words *= _signed(MULTIPLIERS[1])
    words ^= (words >> 16) & 0xFFFF
    return words


def _signed(word: int) -> int:
    return word - 2**32 if word >= 2**31 else word


def _unsigned(words: Tensor) -> Tensor:
    return words.long().bitwise_and_(0xFFFFFFFF)
