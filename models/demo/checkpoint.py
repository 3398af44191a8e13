"""The model as a LLaDA2 checkpoint's folder, and back."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from models.demo.model import Mixture, Model
from worker.tiny_checkpoint import files

_PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
_WEIGHTS = "model.safetensors"


def save(model: Model, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes the whole checkpoint, weights in bfloat16. The weights come last, and whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    files.write(folder, tokenizer, model.config)
    partial = folder / f"{_WEIGHTS}.partial"
    save_file(
        {name: tensor.to(torch.bfloat16).cpu() for name, tensor in tensors(model).items()},
        partial,
        metadata={"format": "pt"},
    )
    partial.chmod(0o644)  # safetensors lets nobody else read it
    partial.rename(folder / _WEIGHTS)


def load(folder: Path) -> Model:
    """The model in float32.

    Raises:
        FileNotFoundError: the folder holds no whole checkpoint.
        RuntimeError: its tensors are not those of its configuration.
    """
    model = Model(json.loads((folder / "config.json").read_text("utf-8")))
    named = load_file(folder / _WEIGHTS)
    state = {
        ours: torch.cat([named[theirs].float() for theirs in parts], _joined_along(ours))
        for ours, parts in _names(model).items()
    }
    model.load_state_dict(state)
    model.eval()
    return model


def tensors(model: Model) -> dict[str, Tensor]:
    """Its weights under the names that LLaDA2 checkpoints use; each expert's apart."""
    state = model.state_dict()
    return {
        name: part.contiguous()
        for ours, parts in _names(model).items()
        for name, part in zip(parts, state[ours].detach().chunk(len(parts), _joined_along(ours)), strict=True)
    }


def _names(model: Model) -> dict[str, list[str]]:
    """For each of our tensors, the checkpoint's names of what it is made of, in order."""
    names = {ours: [ours if ours.startswith("lm_head.") else f"model.{ours}"] for ours in model.state_dict()}
    experts = [f"experts.{expert}" for expert in range(model.config["num_experts"])] + ["shared_experts"]
    for module_name, module in model.named_modules():
        if isinstance(module, Mixture):
            for projection in _PROJECTIONS:
                names[f"{module_name}.{projection}.weight"] = [
                    f"model.{module_name}.{expert}.{projection}.weight" for expert in experts
                ]
    return names


def _joined_along(name: str) -> int:
    return 1 if name.endswith("down_proj.weight") else 0
