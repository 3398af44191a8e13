"""The KV cache of random blocks, computed in one forward and one block at a time, on the model that serves.

Its requests take KV slots and a row of the table for a moment, outside the prefix cache.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from worker.dllm.prefill import request

_SEED = 5


@dataclass(frozen=True)
class Differences:
    """Of each layer: root mean square of the difference over that of the values; the worst block, K or V.

    In layer 0 nothing depends on other blocks yet.
    """

    together: list[float]  # all blocks in one forward, against one at a time
    other_context: list[float]  # the last block after other blocks, against the same: what must be noticed


def compare(scheduler: Any, blocks: int) -> Differences:
    """
    Args:
        blocks: of the prompt, at least 2; all are rows of one forward.
    """
    block, mask = scheduler.dllm_config.block_size, scheduler.dllm_config.mask_id
    generator = torch.Generator().manual_seed(_SEED)
    ids = torch.randint(scheduler.model_config.vocab_size - 1, (2, blocks * block), generator=generator)
    ids += ids >= mask  # a mask would be denoised
    ids[1, -block:] = ids[0, -block:]
    prompt, other = ids.tolist()
    expected = _prefill(scheduler, prompt, at_once=1)
    elsewhere = _prefill(scheduler, other, at_once=1)
    together = _prefill(scheduler, prompt, at_once=blocks)
    return Differences(_worst(together, expected), _worst(_last(elsewhere), _last(expected)))


def _worst(seen: list[Tensor], expected: list[Tensor]) -> list[float]:
    relative = []
    for a, b in zip(seen, expected, strict=True):
        difference = (a.float() - b.float()).square().mean(-1).sqrt()
        relative.append(float((difference / b.float().square().mean(-1).sqrt()).max()))
    return [max(key, value) for key, value in zip(relative[::2], relative[1::2], strict=True)]


def _last(kv: list[Tensor]) -> list[Tensor]:
    return [each[-1:] for each in kv]


def _prefill(scheduler: Any, ids: list[int], at_once: int) -> list[Tensor]:
    """A prompt, `at_once` blocks a forward: the keys and values of each layer in turn, [blocks, values]."""
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.sampling.sampling_params import SamplingParams

    config, table = scheduler.dllm_config, scheduler.req_to_token_pool
    prompt = Req(
        "dllm-prefill-self-test",
        "",
        array("q", ids),
        SamplingParams(max_new_tokens=1),
        vocab_size=scheduler.model_config.vocab_size,
        dllm_config=config,
    )
    prompt.init_next_round_input()
    try:
        for start in range(0, len(ids), at_once * config.block_size):
            request.extend_to(prompt, min(start + at_once * config.block_size, len(ids)))
            _forward(scheduler, prompt)
            request.keep_extent(prompt, table)
            prompt.dllm_block_offset = request.prefix_length(prompt)
        slots = table.req_to_token[request.table_row(prompt), : len(ids)].to(torch.int64, copy=True)
        return _read(scheduler.token_to_kv_pool_allocator.get_kvcache(), slots, config.block_size)
    finally:
        _give_back(scheduler, prompt)


def _forward(scheduler: Any, prompt: Any) -> None:
    from sglang.srt.managers.schedule_batch import ScheduleBatch

    batch = ScheduleBatch.init_new(
        [prompt],
        scheduler.req_to_token_pool,
        scheduler.token_to_kv_pool_allocator,
        scheduler.tree_cache,
        scheduler.model_config,
        scheduler.enable_overlap,
        scheduler.spec_algorithm,
        dllm_config=scheduler.dllm_config,
    )
    batch.prepare_for_extend()
    prompt.inflight_middle_chunks += 1  # else 0.5.17 takes its row for one that was forgotten
    scheduler.run_batch(batch)


def _read(cache: Any, slots: Tensor, block: int) -> list[Tensor]:
    blocks = len(slots) // block
    return [_bytes(buffer)[slots].view(buffer.dtype).reshape(blocks, -1) for buffer in _buffers(cache)]


def _buffers(cache: Any) -> Iterator[Tensor]:
    for layer in range(cache.start_layer, cache.start_layer + cache.layer_num):
        yield cache.get_key_buffer(layer)
        yield cache.get_value_buffer(layer)


def _bytes(buffer: Tensor) -> Tensor:
    """Torch cannot index every 8-bit float."""
    return buffer.view(torch.uint8)


def _give_back(scheduler: Any, prompt: Any) -> None:
    row = getattr(prompt, "req_pool_idx", None) if hasattr(prompt, "req_pool_idx") else prompt.kv.req_pool_idx
    if row is None:
        return
    table = scheduler.req_to_token_pool
    slots = table.req_to_token[row, : request.prefix_length(prompt)].to(torch.int64, copy=True)
    for buffer in _buffers(scheduler.token_to_kv_pool_allocator.get_kvcache()):
        # The next prompt may get these slots, and what it fails to write would be right all the same.
        _bytes(buffer)[slots] = 0
    scheduler.token_to_kv_pool_allocator.free(slots)
    table.free(prompt)
