"""A ForwardBatch whose every row is one block, made from SGLang's batch of whole requests."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_PER_REQUEST = ("lora_ids", "rids", "top_logprobs_nums", "token_ids_logprobs", "mm_inputs")
"""Lists of a ForwardBatch with an entry for each request."""


@dataclass(frozen=True)
class Row:
    table_row: int
    prefix: int  # tokens before the block
    source: int  # index of its request in the batch


def of_rows(
    rows: list[Row], ids: Tensor, places: Tensor, like: Any, block: int, prompt_mask: Tensor | None
) -> Any:
    """A ForwardBatch of rows of one block.

    Args:
        ids: [rows x block]; so are `places`, the KV slots.
        like: SGLang's batch of the same requests, whose other fields are kept.
        prompt_mask: [rows, block] or None.
    """
    count, device = len(rows), ids.device
    prefixes = [row.prefix for row in rows]
    lengths = [prefix + block for prefix in prefixes]
    # One copy to the device instead of three.
    table_rows, before, after = torch.tensor(
        [[row.table_row for row in rows], prefixes, lengths], dtype=torch.int64
    ).to(device, non_blocking=True)
    batch = copy.copy(like)
    batch.batch_size = count
    batch.input_ids, batch.out_cache_loc = ids, places
    batch.req_pool_indices = table_rows.to(like.req_pool_indices.dtype)
    batch.seq_lens = after.to(like.seq_lens.dtype)
    batch.seq_lens_sum = sum(lengths)
    if like.seq_lens_cpu is not None:
        batch.seq_lens_cpu = torch.tensor(lengths, dtype=like.seq_lens_cpu.dtype)
    if like.orig_seq_lens is not None:
        batch.orig_seq_lens = after.to(like.orig_seq_lens.dtype)
    offsets = torch.arange(block, device=device)
    batch.positions = (before[:, None] + offsets).view(-1).to(like.positions.dtype)
    batch.extend_num_tokens = count * block
    batch.extend_prefix_lens, batch.extend_prefix_lens_cpu = before.to(torch.int32), prefixes
    batch.extend_seq_lens = torch.full((count,), block, dtype=torch.int32, device=device)
    batch.extend_seq_lens_cpu = [block] * count
    batch.extend_start_loc = torch.arange(count, dtype=torch.int32, device=device) * block
    batch.extend_logprob_start_lens_cpu = [0] * count
    _set_if_there(batch, "req_pool_indices_cpu", torch.tensor([row.table_row for row in rows]))
    _set_if_there(batch, "dllm_prompt_mask", prompt_mask)
    _set_token_count(batch, count * block, device)
    for name in _PER_REQUEST:
        values = getattr(like, name, None)
        if isinstance(values, list) and len(values) == like.batch_size:
            setattr(batch, name, [values[row.source] for row in rows])
    return batch


def _set_if_there(batch: Any, name: str, value: Any) -> None:
    if getattr(batch, name, None) is not None:
        setattr(batch, name, value)


def _set_token_count(batch: Any, tokens: int, device: torch.device) -> None:
    """Tokens that are no padding: `num_token_non_padded` and its like, by version."""
    for name in ("num_token_non_padded_cpu", "global_num_token_non_padded_cpu"):
        _set_if_there(batch, name, tokens)
    for name in ("num_token_non_padded", "global_num_token_non_padded"):
        _set_if_there(batch, name, torch.tensor(tokens, dtype=torch.int32, device=device))
