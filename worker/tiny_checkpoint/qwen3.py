"""The shape and the random weights of the tiny autoregressive model."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer

from worker.tiny_checkpoint.noise import Noise, row_scales
from worker.tiny_checkpoint.vocabulary import END_OF_TEXT

# Of the next token the best has a probability of a fifth or so: what is drawn differs, and a log probability
# says something.
_LOGIT_SCALE = 0.5
# With sharp attention to single positions an answer does not fall into a loop of a few words.
_ATTENTION_SHARPNESS = 2.0


def config(tokenizer: Tokenizer) -> dict[str, Any]:
    """The checkpoint's config.json: Qwen3's structure, small."""
    end = tokenizer.token_to_id(END_OF_TEXT)
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "intermediate_size": 128,
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "max_position_embeddings": 2048,
        "rope_theta": 600000,
        "rope_scaling": None,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "bos_token_id": tokenizer.token_to_id("<|startoftext|>"),
        "eos_token_id": end,
        "pad_token_id": end,
        "torch_dtype": "float32",
        "use_cache": True,
    }


def tensors(config: dict[str, Any], tokenizer: Tokenizer, seed: int) -> dict[str, torch.Tensor]:
    """Random float32 tensors under the names that Qwen3 checkpoints use. The same seed, the same bytes."""
    noise = Noise(seed)
    hidden, head_dim = config["hidden_size"], config["head_dim"]
    queries = config["num_attention_heads"] * head_dim
    keys = config["num_key_value_heads"] * head_dim
    loudness = row_scales(tokenizer, _LOGIT_SCALE)
    weights = {
        "model.embed_tokens.weight": noise(config["vocab_size"], hidden),
        "model.norm.weight": torch.ones(hidden),
        "lm_head.weight": noise(config["vocab_size"], hidden) * loudness[:, None],
    }
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        weights |= {
            prefix + "input_layernorm.weight": torch.ones(hidden),
            prefix + "post_attention_layernorm.weight": torch.ones(hidden),
            prefix + "self_attn.q_proj.weight": noise.linear(queries, hidden),
            prefix + "self_attn.k_proj.weight": noise.linear(keys, hidden),
            prefix + "self_attn.v_proj.weight": noise.linear(keys, hidden),
            prefix + "self_attn.o_proj.weight": noise.linear(hidden, queries),
            prefix + "self_attn.q_norm.weight": torch.full((head_dim,), _ATTENTION_SHARPNESS),
            prefix + "self_attn.k_norm.weight": torch.full((head_dim,), _ATTENTION_SHARPNESS),
        }
        weights |= noise.mlp(prefix + "mlp.", hidden, config["intermediate_size"])
    return weights
