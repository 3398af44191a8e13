"""Checkpoints of about a megabyte, to run the whole stack without a GPU: one with LLaDA2's architecture,
which decodes by block diffusion, and one with Qwen3's, which is autoregressive.

Their weights are random, so **what they write is noise**: a word salad of English and Chinese. Everything
around the words is real: SGLang's model code, decoding, the tokenizer, the chat template, stop tokens and
usage.

    python -m worker.tiny_checkpoint DIR [--autoregressive]
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from worker.tiny_checkpoint import files, vocabulary


def write(folder: Path, seed: int = 0, *, autoregressive: bool = False) -> Path:
    """Writes a checkpoint and returns its folder. One that is there already is kept as it is.

    The folder appears whole or not at all, whenever the process dies.

    Raises:
        OSError: the folder cannot be written, or exists with something else in it.
    """
    if (folder / "config.json").is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside its final place, so that the rename stays on one file system.
    building = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        building.chmod(0o755)
        _fill(building, seed, autoregressive)
        try:
            building.rename(folder)
        except OSError:
            # Another process may have written it meanwhile.
            if not (folder / "config.json").is_file():
                raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return folder


def _fill(folder: Path, seed: int, autoregressive: bool) -> None:
    # Torch costs a process 180 MB, and one that finds the checkpoint written needs none of it.
    from safetensors.torch import save_file

    from worker.tiny_checkpoint import qwen3, weights

    shape = qwen3 if autoregressive else weights
    tokenizer = vocabulary.tokenizer()
    config = shape.config(tokenizer)
    model = folder / "model.safetensors"
    save_file(shape.tensors(config, tokenizer, seed), model, metadata={"format": "pt"})
    model.chmod(0o644)  # safetensors lets nobody else read it
    files.write(folder, tokenizer, config)
