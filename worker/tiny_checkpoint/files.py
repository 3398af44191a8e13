"""The files around a checkpoint's weights: tokenizer, chat template, configuration."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from worker.tiny_checkpoint.vocabulary import END_OF_TEXT, MASK

_HERE = Path(__file__).parent
_CONFIGURATION = "configuration_llada2_moe.py"
CHAT_TEMPLATE = _HERE / "chat_template.jinja"


def write(folder: Path, tokenizer: Tokenizer, config: dict[str, Any]) -> None:
    """Everything but model.safetensors, into a folder that exists.

    Args:
        config: the checkpoint's config.json.
    """
    tokenizer.save(str(folder / "tokenizer.json"))
    if "auto_map" in config:
        shutil.copyfile(_HERE / _CONFIGURATION, folder / _CONFIGURATION)
    shutil.copyfile(CHAT_TEMPLATE, folder / CHAT_TEMPLATE.name)
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "<|startoftext|>",
            "eos_token": END_OF_TEXT,
            "pad_token": END_OF_TEXT,
            **({"mask_token": MASK} if "mask_token_id" in config else {}),
            "clean_up_tokenization_spaces": False,
            "model_max_length": config["max_position_embeddings"],
        },
    )
    _write_json(
        folder / "generation_config.json",
        {"eos_token_id": config["eos_token_id"], "pad_token_id": config["pad_token_id"]},
    )
    _write_json(folder / "config.json", config)


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
