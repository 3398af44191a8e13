"""LLaDA2-mini without its weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from worker import tiny_checkpoint
from worker.tiny_checkpoint import files, vocabulary

_CONFIGURATION = "configuration_llada2_moe.py"

# Source: config.json of inclusionAI/LLaDA2.0-mini; max_position_embeddings is ours, for long prompts.
MINI: dict[str, Any] = {
    "architectures": ["LLaDA2MoeModelLM"],
    "model_type": "llada2_moe",
    "auto_map": {"AutoConfig": "configuration_llada2_moe.LLaDA2MoeConfig"},
    "vocab_size": 157184,
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "num_hidden_layers": 20,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "hidden_act": "silu",
    "use_bias": False,
    "use_qkv_bias": False,
    "use_qk_norm": True,
    "rms_norm_eps": 1e-6,
    "norm_head": False,
    "tie_word_embeddings": False,
    "embedding_dropout": 0.0,
    "attention_dropout": 0.0,
    "output_dropout": 0.0,
    "initializer_range": 0.02,
    "max_position_embeddings": 32768,
    "rope_theta": 600000,
    "rope_scaling": None,
    "partial_rotary_factor": 0.5,
    "rotary_dim": 64,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
    "n_group": 8,
    "topk_group": 4,
    "moe_intermediate_size": 512,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 2.5,
    "norm_topk_prob": True,
    "score_function": "sigmoid",
    "moe_router_enable_expert_bias": True,
    "router_dtype": "fp32",
    "pad_token_id": 156892,
    "eos_token_id": 156892,
    "mask_token_id": 156895,
    "torch_dtype": "bfloat16",
    "use_cache": True,
}


def write_served(folder: Path) -> Path:
    """With a tokenizer and a chat template too, the tiny checkpoint's: a worker asks for them.

    They know a thousand of the model's tokens, so that of its answers hardly any text is left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files.write(folder, vocabulary.tokenizer(), MINI)
    return folder


def write(folder: Path) -> Path:
    """Writes what SGLang reads besides weights, and returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(MINI, indent=1) + "\n", "utf-8")
    shutil.copy(Path(tiny_checkpoint.__file__).with_name(_CONFIGURATION), folder)
    return folder
