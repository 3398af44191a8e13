"""The block-diffusion loss of a batch of rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from models.demo.model import Model
from models.demo.noise import Noised


@dataclass(frozen=True)
class Losses:
    total: Tensor  # what is minimised
    masked: Tensor  # mean cross-entropy of the masked positions
    wrong: Tensor  # of the wrong visible ones


def losses(model: Model, batch: dict[str, Tensor], noised: Noised, visible: Tensor | BlockMask) -> Losses:
    """One forward of both copies; the loss is on the noised one."""
    ids = batch["ids"]
    both = model(torch.cat([ids, noised.ids], 1), torch.cat([batch["position"]] * 2, 1), visible)
    logits = model.lm_head(both[:, ids.shape[1] :])
    entropy = F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten(), reduction="none").view_as(ids)
    total = (entropy * noised.weights).sum() / batch["answer"].sum()
    masked = noised.ids == model.config["mask_token_id"]
    wrong = (noised.ids != ids) & ~masked
    return Losses(total, _mean(entropy.detach(), masked), _mean(entropy.detach(), wrong))


def _mean(values: Tensor, where: Tensor) -> Tensor:
    return (values * where).sum() / where.sum().clamp(min=1)
