"""Weights that make every expert and every token about as likely as any other.

SGLang's own dummy weights are so small that all logits are equal, and the router sends every token to the
same experts, which is less work than a real model is.
"""

from __future__ import annotations

from typing import Any

import torch

# The second is where the loader has imported it to.
TARGETS = [
    "sglang.srt.model_loader.weight_utils.initialize_dummy_weights",
    "sglang.srt.model_loader.loader.initialize_dummy_weights",
]
_STANDARD_DEVIATION = 0.02  # as LLaDA2 is initialised
_HEAD = "lm_head.weight"


def fill(model: torch.nn.Module, low: float = 0.0, high: float = 0.0, seed: int = 1234) -> None:
    """In place of SGLang's function; the same weights in every process.

    Where GPUs share a model, their parts of a weight are alike: it is another model than on one GPU.
    """
    generator = None
    for name, parameter in model.named_parameters():
        if not parameter.is_floating_point():
            continue
        if "norm" in name:
            parameter.data.fill_(1.0)
        elif "bias" in name:
            parameter.data.zero_()
        else:
            if generator is None:
                generator = torch.Generator(parameter.device).manual_seed(seed)
            for piece in parameter.data.view(-1).split(1 << 28):
                piece.normal_(0, _STANDARD_DEVIATION, generator=generator)
        if name == _HEAD:
            parameter.data[_silent(model)] = 0


def _silent(model: Any) -> list[int]:
    """Rows of tokens that no answer shall have: it would end before its length, or wait for its mask for
    ever. Of several GPUs each has a part of the rows."""
    part = model.lm_head.shard_indices
    first, end = part.org_vocab_start_index, part.org_vocab_end_index
    silent = (model.config.eos_token_id, model.config.mask_token_id)
    return [token - first for token in silent if first <= token < end]
