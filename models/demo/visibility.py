"""Which position sees which, when a row's clean and noised copies go through the model side by side.

A sequence is [clean | noised]. Block i of the clean copy sees the clean blocks up to i of its document: so
an engine computes the KV of finished blocks. Block i of the noised copy sees the clean blocks before i
and itself: so an engine sees a block that it is filling in.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from models.demo.shape import BLOCK_SIZE


def two_streams(document: Tensor) -> Tensor:
    """[rows, 1, 2 tokens, 2 tokens], true where the query (first) sees the key.

    Args:
        document: [rows, tokens], the number of each position's document; it changes only between blocks.
    """
    of_block = document[:, ::BLOCK_SIZE]
    index = torch.arange(of_block.shape[1], device=document.device)
    same = of_block[:, :, None] == of_block[:, None, :]
    earlier = same & (index[None, :] < index[:, None])
    itself = torch.eye(len(index), dtype=torch.bool, device=document.device).expand_as(same)
    clean = torch.cat([earlier | itself, torch.zeros_like(same)], 2)
    noised = torch.cat([earlier, itself], 2)
    blocks = torch.cat([clean, noised], 1)
    return blocks.repeat_interleave(BLOCK_SIZE, 1).repeat_interleave(BLOCK_SIZE, 2)[:, None]


def two_streams_sparse(document: Tensor) -> BlockMask:
    """The same for flex_attention, which skips what nobody sees."""
    rows, tokens = document.shape
    doubled = torch.cat([document, document], 1)

    def sees(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        query_block, key_block = query % tokens // BLOCK_SIZE, key % tokens // BLOCK_SIZE
        query_noised, key_noised = query >= tokens, key >= tokens
        same = doubled[row, query] == doubled[row, key]
        to_clean = ~key_noised & same & (key_block < query_block + (~query_noised).int())
        return to_clean | (query_noised & key_noised & (query_block == key_block))

    return create_block_mask(sees, rows, None, 2 * tokens, 2 * tokens, device=document.device)


def block_causal(tokens: int, device: torch.device) -> Tensor:
    """[tokens, tokens] of one sequence: each block sees itself and what is before it."""
    block = torch.arange(tokens, device=device) // BLOCK_SIZE
    return block[:, None] >= block[None, :]
