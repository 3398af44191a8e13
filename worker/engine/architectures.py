"""The block-diffusion architectures that SGLang serves, and what it assumes about each.

Source: `DLLM_PARAMS` in `sglang/srt/dllm/config.py`; a test compares the two.
"""

from __future__ import annotations

from typing import NamedTuple


class BlockDiffusion(NamedTuple):
    block_size: int
    mask_id: int  # negative: this architecture decodes without a mask
    algorithms: frozenset[str]
    # Its blocks are counted from the prompt's end, not from its first token: the algorithm has SGLang's
    # `requires_separate_context_encoding`.
    blocks_follow_prompt: bool = False


PER_REQUEST = "PerRequest"
"""--dllm-algorithm of an engine in which each request decodes as it asks; for architectures with a mask."""

_MASKED = frozenset({"LowConfidence", "JointThreshold", "JointThresholdInDel"})

BLOCK_DIFFUSION: dict[str, BlockDiffusion] = {
    "LLaDA2MoeModelLM": BlockDiffusion(32, 156895, _MASKED),
    "SDARForCausalLM": BlockDiffusion(4, 151669, _MASKED),
    "SDARMoeForCausalLM": BlockDiffusion(4, 151669, _MASKED),
    "DiffusionGemmaForBlockDiffusion": BlockDiffusion(
        256, -1, frozenset({"Gemma4Renoise"}), blocks_follow_prompt=True
    ),
}

# Their config.json names a class that the checkpoint itself carries (`auto_map`).
NEEDS_REMOTE_CODE = frozenset({"LLaDA2MoeModelLM"})
