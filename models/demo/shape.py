"""Two sizes of one architecture: the demo model, and a toy to try the training with on a CPU."""

from __future__ import annotations

from typing import Any, Literal

from tokenizers import Tokenizer

from worker.tiny_checkpoint import weights

Size = Literal["demo", "toy"]
BLOCK_SIZE = weights.BLOCK_SIZE

# head_dim 64 is the smallest that attention kernels for GPUs are made for. Two of eight experts, in four
# groups, are few enough to compute all of them in training.
_DEMO = {
    "hidden_size": 384,
    "num_hidden_layers": 9,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "rotary_dim": 32,
    "intermediate_size": 1024,
    "moe_intermediate_size": 128,
}
_TOY = {
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "rotary_dim": 16,
    "intermediate_size": 192,
    "moe_intermediate_size": 32,
}


def config(size: Size, tokenizer: Tokenizer) -> dict[str, Any]:
    """The checkpoint's config.json."""
    shape = _DEMO if size == "demo" else _TOY
    return weights.config(tokenizer) | shape | {"torch_dtype": "bfloat16"}
