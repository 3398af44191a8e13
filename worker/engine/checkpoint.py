"""Where a model's checkpoint is, and what it says about itself."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dllm_stack.settings import CONFIGS
from worker import tiny_checkpoint
from worker.engine.architectures import BLOCK_DIFFUSION
from worker.engine.catalog import Facts, Model

# As a model's `checkpoint`: the trained one that is part of this package, and the generated ones, which are
# written on first use.
OWN = DEMO, TINY, TINY_AUTOREGRESSIVE = "demo:", "tiny:", "tiny-ar:"

_DEMO_FOLDER = CONFIGS.parent / "models" / "demo" / "checkpoint"

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


class CheckpointError(Exception):
    """A checkpoint is not where it should be, or its config.json cannot be used."""


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dllm-stack"


def locate(model: Model, override: str | None = None) -> str:
    """The checkpoint as SGLang takes it: an absolute folder, which may be what `dllm-stack fetch` has made of
    a hub id, or a hub id.

    Args:
        override: takes the place of the model file's checkpoint.

    Raises:
        CheckpointError: it is neither, or not there.
    """
    name = override or model.checkpoint
    if name == DEMO:
        return str(_demo())
    if name in (TINY, TINY_AUTOREGRESSIVE):
        return str(_tiny(autoregressive=name == TINY_AUTOREGRESSIVE))
    place = folder_or_hub_id(name)
    if os.path.isabs(place):
        return place
    from worker.fetch.cache import Repository  # without huggingface_hub there is still the demo model

    fetched = Repository(place).fetched(model.revision if place == model.checkpoint else None)
    return str(fetched or place)


def folder_or_hub_id(name: str) -> str:
    """A checkpoint's name that is none of `OWN`, a folder's made absolute.

    Raises:
        CheckpointError: it is neither.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    if folder.is_absolute() or not _HUB_ID.fullmatch(name):
        raise CheckpointError(f"{name}: no such folder, and no hub id such as inclusionAI/LLaDA2.1-mini")
    return name


def facts(model: Model, location: str) -> Facts:
    """What the checkpoint is: from its config.json when it is a folder, from the model file when it is
    the hub id given there, and from the hub's config.json when it is another hub id.

    Raises:
        CheckpointError: there is no usable config.json.
    """
    folder = Path(location)
    if folder.is_dir():
        return _read(folder)
    if model.facts and location == model.checkpoint:
        return _with_stock_values(model.facts)
    return _read(download_small_files(location, model.revision if location == model.checkpoint else None))


def _demo() -> Path:
    if not (_DEMO_FOLDER / "model.safetensors").is_file():
        raise CheckpointError(
            f"{_DEMO_FOLDER}: the demo model's weights are not there: install dllm-stack whole, or choose "
            "another model by worker.model"
        )
    return _DEMO_FOLDER


def _tiny(*, autoregressive: bool) -> Path:
    # Another generator writes another checkpoint, and one that an engine has open is never touched.
    generator = hashlib.sha256()
    for file in sorted(Path(tiny_checkpoint.__file__).parent.iterdir()):
        if file.is_file():
            generator.update(file.read_bytes())
    kind = "qwen3" if autoregressive else "llada2"
    folder = cache_folder() / f"tiny-{kind}-{generator.hexdigest()[:12]}"
    return tiny_checkpoint.write(folder, autoregressive=autoregressive)


def download_small_files(hub_id: str, revision: str | None) -> Path:
    """The checkpoint's configuration and tokenizer, without its weights.

    Raises:
        CheckpointError: the hub does not give them.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(hub_id, revision=revision, allow_patterns=["*.json", "*.jinja"]))
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise CheckpointError(f"{hub_id}: cannot be read from the hub: {reason}") from error


def _read(folder: Path) -> Facts:
    path = folder / "config.json"
    config = _json(path)
    # Multimodal checkpoints keep the language model's numbers in a section of their own.
    config |= config.get("text_config", {})
    architectures = config.get("architectures")
    if not architectures:
        raise CheckpointError(f"{path}: architectures: missing, so it is unknown which model this is")
    heads = config.get("num_attention_heads")
    try:
        found = Facts(
            architecture=architectures[0],
            attention_heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            context_length=config.get("max_position_embeddings"),
            vocab_size=config.get("vocab_size"),
            weights_gb=_weights_gb(folder),
            block_size=config.get("block_size") or config.get("canvas_length"),
            mask_id=config.get("mask_token_id"),
            chat_template=_has_chat_template(folder),
        )
    except ValidationError as error:
        fields = ", ".join(str(e["loc"][0]) for e in error.errors())
        raise CheckpointError(f"{path}: missing or wrong: {fields}") from None
    return _with_stock_values(found)


def _with_stock_values(found: Facts) -> Facts:
    """Block size and mask id as SGLang assumes them where the checkpoint is silent."""
    stock = BLOCK_DIFFUSION.get(found.architecture)
    if stock is None:
        return found.model_copy(update={"block_size": None, "mask_id": None})
    mask_id = found.mask_id
    if mask_id is None and 0 <= stock.mask_id < found.vocab_size:
        mask_id = stock.mask_id
    return found.model_copy(update={"block_size": found.block_size or stock.block_size, "mask_id": mask_id})


def _weights_gb(folder: Path) -> float | None:
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    index = folder / "model.safetensors.index.json"
    if not size and index.is_file():
        size = _json(index).get("metadata", {}).get("total_size", 0)
    return size / 1e9 or None


def _has_chat_template(folder: Path) -> bool:
    """Looks where transformers does."""
    if any(file.stat().st_size for file in folder.glob("chat_template.jinja")):
        return True
    tokenizer = folder / "tokenizer_config.json"
    return tokenizer.is_file() and bool(_json(tokenizer).get("chat_template"))


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: must be an object")
    return content
