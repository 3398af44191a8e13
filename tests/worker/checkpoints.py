"""Folders that look like checkpoints, without weights worth loading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LLADA2_MINI = {
    "architectures": ["LLaDA2MoeModelLM"],
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "vocab_size": 157184,
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "num_attention_heads": 32,
    "max_position_embeddings": 4096,
    "vocab_size": 32000,
}
TEMPLATE = "{% for m in messages %}<role>{{ m['role'] }}</role>{{ m['content'] }}{% endfor %}"


def write(folder: Path, config: dict[str, Any], *, chat_template: str | None = TEMPLATE) -> Path:
    """A folder with config.json and a tokenizer_config.json; the latter with a chat template or not."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    if chat_template is not None:
        tokenizer["chat_template"] = chat_template
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder
