"""The demo model before training, so loud that tokens, positions and experts can be told apart."""

from __future__ import annotations

import torch

from models.demo import shape, tokenizer
from models.demo.model import Model


def random_model() -> Model:
    torch.manual_seed(0)
    model = Model(shape.config("toy", tokenizer.load()))
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter.data *= 8
        else:
            parameter.data += 0.2 * torch.randn_like(parameter)
    # So sure of its tokens that it commits several of a block in one step.
    model.lm_head.weight.data *= 10
    for router in model.routers():
        router.expert_bias += 0.1 * torch.randn(len(router.expert_bias))
    model.eval()
    return model
