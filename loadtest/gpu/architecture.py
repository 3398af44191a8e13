"""LLaDA2-mini without its weights."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from worker import tiny_checkpoint
from worker.tiny_checkpoint import files
from worker.tiny_checkpoint.vocabulary import END_OF_TEXT, MASK

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

_ROLES = {156891: "<|startoftext|>", 156900: "<role>", 156901: "</role>", 156902: "<|role_end|>"}


def write(folder: Path) -> Path:
    """Writes what SGLang reads besides weights, and returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(MINI, indent=1) + "\n", "utf-8")
    shutil.copy(Path(tiny_checkpoint.__file__).with_name(_CONFIGURATION), folder)
    return folder


def write_with_tokenizer(folder: Path) -> Path:
    """Writes all of a checkpoint but its weights, for an engine that is asked with text."""
    folder.mkdir(parents=True, exist_ok=True)
    files.write(folder, tokenizer(), MINI)
    return folder


def tokenizer() -> Tokenizer:
    """Of LLaDA2-mini's size; its words are made up, and each is one token."""
    special = {MINI["eos_token_id"]: END_OF_TEXT, MINI["mask_token_id"]: MASK} | _ROLES
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [
        *letters,
        *(f"\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}w{id}" for id in range(MINI["vocab_size"])),
    ]
    vocabulary = {special.get(id, words[id]): id for id in range(MINI["vocab_size"])}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in special.values()])
    return made
