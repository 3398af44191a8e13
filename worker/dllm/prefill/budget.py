"""How many of a prompt's blocks a forward takes: hooks on SGLang's PrefillAdder.

The adder's `prompt_blocks` says how many blocks the prompt that is asked next may take; `rounds` sets it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from worker.dllm.prefill import limits, request


@dataclass
class RowBudget:
    """The prompt rows of one forward, shared among the prompts that want some, oldest first."""

    left: int
    prompts: int  # that have not had their turn

    def share(self) -> int:
        """Rows for the prompt whose turn it is: one is kept for each prompt behind it, but half at most.

        So a long prompt does not keep short ones waiting, and many do not slow the oldest to a crawl.
        """
        behind = max(self.prompts - 1, 0)
        return self.left - min(behind, self.left // 2)

    def spend(self, rows: int) -> None:
        """Ends a prompt's turn."""
        self.left -= rows
        self.prompts -= 1


def make_room(_: None, adder: Any, config: Any) -> None:
    """AFTER hook of PrefillAdder._init_dllm_meta: the rows of prompts on top of those of the slots."""
    in_force = limits.of(config)
    adder.prompt_blocks = 0
    adder.rem_dllm_tokens += max(in_force.alone, in_force.mixed) * config.block_size


def extent_blocks(adder: Any, prompt: Any) -> int:
    """Blocks that the prompt may be extended by now; 0: it has none that are known, or nothing is left."""
    block = adder.dllm_config.block_size
    # The allocator wants a spare page for every request.
    free = (int(adder.cur_rem_tokens) - adder.page_size) // block
    most = min(adder.prompt_blocks, free, adder.rem_dllm_tokens // block)
    return request.known_blocks(prompt, most)


def add_prompt_under_way(original: Callable[[Any, Any], Any], adder: Any, prompt: Any) -> Any:
    """AROUND hook of PrefillAdder.add_dllm_staging_req, which extends a request that has KV already.

    A prompt for which no row or no KV is left keeps what it has and waits for the next round.
    """
    if not limits.of(adder.dllm_config) or request.known_blocks(prompt, 1) == 0:
        return original(adder, prompt)
    from sglang.srt.managers.schedule_policy import AddReqResult

    tokens = extent_blocks(adder, prompt) * adder.dllm_config.block_size
    if tokens > 0:
        request.extend_to(prompt, request.prefix_length(prompt) + tokens)
        adder.can_run_list.append(prompt)
        adder._update_prefill_budget(0, tokens, 0, prompt.retracted_stain)
    return AddReqResult.CONTINUE


def add_newcomer(original: Callable[..., None], adder: Any, prompt: Any, *args: Any) -> None:
    """AROUND hook of PrefillAdder._add_dllm_req (0.5.17), which takes `dllm_block_size` tokens."""
    blocks = extent_blocks(adder, prompt) if limits.of(adder.dllm_config) else 0
    if blocks < 2:
        original(adder, prompt, *args)
        return
    block = adder.dllm_block_size
    adder.dllm_block_size = blocks * block
    try:
        original(adder, prompt, *args)
    finally:
        adder.dllm_block_size = block


def newcomer_length(original: Callable[..., int], adder: Any, prompt: Any, prefix: int) -> int:
    """AROUND hook of PrefillAdder._get_dllm_extend_len (0.5.23)."""
    if limits.of(adder.dllm_config) and prefix == request.prefix_length(prompt):
        blocks = extent_blocks(adder, prompt)
        if blocks > 1:
            return blocks * int(adder.dllm_config.block_size)
    return original(adder, prompt, prefix)


def whole_block(remaining: int, adder: Any, *args: Any) -> int:
    """AFTER hook of PrefillAdder._get_dllm_remain_tokens: what a row that is denoised may get.

    Stock bounds it by what is reserved for later, and when memory is short it hands out a part of a block,
    or, with nothing unreserved, all that is left of the round's budget. No algorithm can decode either.
    """
    if getattr(adder.dllm_config, "requires_separate_context_encoding", False):
        return remaining
    block = int(adder.dllm_config.block_size)
    return block if adder.rem_dllm_tokens >= block else 0
