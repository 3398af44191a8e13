"""Random tensors that a small model can be made of."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer

from worker.tiny_checkpoint.vocabulary import END_OF_TEXT, spoken

_SILENT_SCALE = 0.01


class Noise:
    """Normal random tensors, all from one seed."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self._generator)

    def linear(self, outputs: int, inputs: int) -> torch.Tensor:
        """A matrix that keeps the variance of what it is applied to."""
        return self(outputs, inputs) / inputs**0.5

    def mlp(self, prefix: str, hidden: int, inner: int) -> dict[str, torch.Tensor]:
        return {
            prefix + "gate_proj.weight": self.linear(inner, hidden),
            prefix + "up_proj.weight": self.linear(inner, hidden),
            prefix + "down_proj.weight": self.linear(hidden, inner),
        }


def row_scales(tokenizer: Tokenizer, scale: float) -> torch.Tensor:
    """How loud each token is. An end is as likely as any one word; bytes and other specials never win."""
    scales = torch.full((tokenizer.get_vocab_size(),), _SILENT_SCALE)
    for token in [*spoken(), END_OF_TEXT]:
        (index,) = tokenizer.encode(token).ids
        scales[index] = scale
    return scales
