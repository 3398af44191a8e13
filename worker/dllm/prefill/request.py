"""SGLang's Req where 0.5.17 and 0.5.23 differ. Lengths and positions are in tokens.

A request's extent is what the next forward computes of it: from its prefix, whose KV is there, to some end.
"""

from __future__ import annotations

from typing import Any

import torch

from worker.dllm.prefill import limits


def prefix_length(request: Any) -> int:
    if hasattr(request, "prefix_len"):
        return int(request.prefix_len)
    return len(request.prefix_indices)


def extent_end(request: Any) -> int:
    if hasattr(request, "extend_end"):
        return int(request.extend_end)
    return int(request.extend_range.end)


def extend_to(request: Any, end: int) -> None:
    if hasattr(request, "set_extend_range"):
        request.set_extend_range(prefix_length(request), end)
    else:
        request.extend_end = end


def table_row(request: Any) -> int:
    """Of the table that says where each token's KV is."""
    return int(request.req_pool_idx if hasattr(request, "req_pool_idx") else request.kv.req_pool_idx)


def keep_extent(request: Any, table: Any) -> None:
    """Makes the computed extent part of the prefix, as a cache that shares nothing does."""
    if hasattr(request, "prefix_len"):
        request.prefix_len = request.extend_end
    else:
        row = table.req_to_token[request.req_pool_idx, : extent_end(request)]
        request.prefix_indices = row.to(torch.int64, copy=True)


def known_blocks(request: Any, most: int) -> int:
    """Whole prompt blocks that follow the prefix, up to `most`: those that stock would compute one by one."""
    if request.dllm_incomplete_ids or most < 1:
        return 0
    block, prefix = int(request.dllm_config.block_size), prefix_length(request)
    count: int = min((len(request.origin_input_ids) - prefix) // block, most)
    if count < 1 or hasattr(request, "dllm_has_literal_mask"):
        return max(count, 0)
    # Without an explicit prompt mask (0.5.17) a block with a mask id in it is denoised.
    try:
        masked: int = request.origin_input_ids.index(
            request.dllm_config.mask_id, prefix, prefix + count * block
        )
    except ValueError:
        return count
    return (masked - prefix) // block


def is_prompt(request: Any) -> bool:
    """Whether the extent is made of whole prompt blocks, with nothing to denoise."""
    blocks, rest = divmod(extent_end(request) - prefix_length(request), int(request.dllm_config.block_size))
    return rest == 0 and blocks > 0 and known_blocks(request, blocks) == blocks


def tokens_to_come(request: Any, position: int) -> int:
    """KV slots that the request may still need beyond `position`: to its longest answer's last block."""
    block = int(request.dllm_config.block_size)
    longest: int = len(request.origin_input_ids) + request.sampling_params.max_new_tokens
    return max(-(-longest // block) * block - position, 0)


def offset_follows_prefix(_: None, request: Any, *args: Any) -> None:
    """AFTER hook of the two methods that keep `dllm_block_offset`, the position of the next block.

    Stock adds one block a round, which is wrong for a larger extent, and for a request that was looked at
    for admission in two rounds.
    """
    if limits.of(request.dllm_config) and not request.dllm_incomplete_ids:
        request.dllm_block_offset = prefix_length(request)
