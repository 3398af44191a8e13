"""A checkpoint with LLaDA2's architecture, a megabyte small, to run the whole stack without a GPU.

Its weights are random, so **what it writes is noise**: a word salad of English and Chinese. Everything
around the words is real: SGLang's LLaDA2 model code, block decoding, the tokenizer, the chat template,
stop tokens and usage.

    python -m worker.tiny_checkpoint DIR
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from worker.tiny_checkpoint import files, vocabulary


def write(folder: Path, seed: int = 0) -> Path:
    """Writes the checkpoint and returns its folder. One that is there already is kept as it is.

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
        _fill(building, seed)
        try:
            building.rename(folder)
        except OSError:
            # Another process may have written it meanwhile.
            if not (folder / "config.json").is_file():
                raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return folder


def _fill(folder: Path, seed: int) -> None:
    # Torch costs a process 180 MB, and one that finds the checkpoint written needs none of it.
    from safetensors.torch import save_file

    from worker.tiny_checkpoint import weights

    tokenizer = vocabulary.tokenizer()
    config = weights.config(tokenizer)
    model = folder / "model.safetensors"
    save_file(weights.tensors(config, tokenizer, seed), model, metadata={"format": "pt"})
    model.chmod(0o644)  # safetensors lets nobody else read it
    files.write(folder, tokenizer, config)
