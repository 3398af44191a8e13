"""The shape and the random weights of the tiny diffusion model."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer

from worker.tiny_checkpoint.noise import Noise, row_scales
from worker.tiny_checkpoint.vocabulary import END_OF_TEXT, MASK

BLOCK_SIZE = 32

# What makes noise decode like a trained model. With sharp logits several tokens of a block pass a
# threshold of 0.95 in one step; with sharp attention to nearby positions, and a mask whose own
# embedding says little, the positions of a block differ from each other.
_LOGIT_SCALE = 2.0
_MASK_EMBEDDING_SCALE = 0.1
_ATTENTION_SHARPNESS = 2.0


def config(tokenizer: Tokenizer) -> dict[str, Any]:
    """The checkpoint's config.json: LLaDA2-mini's structure, small."""
    end = tokenizer.token_to_id(END_OF_TEXT)
    head_dim = 32
    return {
        "architectures": ["LLaDA2MoeModelLM"],
        "model_type": "llada2_moe",
        "auto_map": {"AutoConfig": "configuration_llada2_moe.LLaDA2MoeConfig"},
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": head_dim,
        "use_qk_norm": True,
        "use_bias": False,
        "use_qkv_bias": False,
        "max_position_embeddings": 2048,
        "rope_theta": 600000,
        "rope_scaling": None,
        "partial_rotary_factor": 0.5,
        "rotary_dim": head_dim // 2,
        "intermediate_size": 128,
        "first_k_dense_replace": 1,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "num_shared_experts": 1,
        "n_group": 4,
        "topk_group": 2,
        "moe_intermediate_size": 32,
        "moe_router_enable_expert_bias": True,
        "router_dtype": "fp32",
        "score_function": "sigmoid",
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "norm_head": False,
        "tie_word_embeddings": False,
        "embedding_dropout": 0.0,
        "attention_dropout": 0.0,
        "output_dropout": 0.0,
        "block_size": BLOCK_SIZE,
        "mask_token_id": tokenizer.token_to_id(MASK),
        "eos_token_id": end,
        "pad_token_id": end,
        "torch_dtype": "float32",
        "use_cache": True,
    }


def tensors(config: dict[str, Any], tokenizer: Tokenizer, seed: int) -> dict[str, torch.Tensor]:
    """Random float32 tensors under the names that LLaDA2 checkpoints use. The same seed, the same bytes."""
    noise = Noise(seed)
    hidden, head_dim = config["hidden_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    fused = (heads + 2 * kv_heads) * head_dim
    embeddings = noise(config["vocab_size"], hidden)
    embeddings[config["mask_token_id"]] *= _MASK_EMBEDDING_SCALE
    weights = {
        "model.word_embeddings.weight": embeddings,
        "model.norm.weight": torch.ones(hidden),
        "lm_head.weight": noise(config["vocab_size"], hidden) * row_scales(tokenizer, _LOGIT_SCALE)[:, None],
    }
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        weights |= {
            prefix + "input_layernorm.weight": torch.ones(hidden),
            prefix + "post_attention_layernorm.weight": torch.ones(hidden),
            prefix + "attention.query_layernorm.weight": torch.full((head_dim,), _ATTENTION_SHARPNESS),
            prefix + "attention.key_layernorm.weight": torch.full((head_dim,), _ATTENTION_SHARPNESS),
            prefix + "attention.query_key_value.weight": noise.linear(fused, hidden),
            prefix + "attention.dense.weight": noise.linear(hidden, heads * head_dim),
        }
        if layer < config["first_k_dense_replace"]:
            weights |= noise.mlp(prefix + "mlp.", hidden, config["intermediate_size"])
        else:
            weights |= _mixture(prefix + "mlp.", config, noise)
    return weights


def _mixture(prefix: str, config: dict[str, Any], noise: Noise) -> dict[str, torch.Tensor]:
    hidden, experts, inner = config["hidden_size"], config["num_experts"], config["moe_intermediate_size"]
    weights = {
        prefix + "gate.weight": noise.linear(experts, hidden),
        prefix + "gate.expert_bias": 0.1 * noise(experts),
    }
    weights |= noise.mlp(prefix + "shared_experts.", hidden, inner)
    for expert in range(experts):
        weights |= noise.mlp(f"{prefix}experts.{expert}.", hidden, inner)
    return weights
