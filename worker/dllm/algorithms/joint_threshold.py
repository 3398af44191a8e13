from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from worker.dllm.algorithms.algorithm import Algorithm, Block, Carried, Change, at_least_one


class JointThreshold(Algorithm):
    """Commits as LowConfidence does, and replaces what it has committed where the model is sure of better.

    The same tokens as SGLang's JointThreshold (LLaDA2.1's token editing), for all rows at once, with the
    mask left out. A row is done when a step changes nothing, or when it has been looked through
    `max_post_edit_steps` times since its last mask went.
    """

    defaults: ClassVar = {
        "threshold": 0.5,
        "edit_threshold": 0.0,
        "max_post_edit_steps": 16.0,
        "penalty_lambda": 0.0,
    }

    def penalty(self, parameters: Mapping[str, float]) -> float:
        return parameters["penalty_lambda"]

    def begin(self, rows: int, length: int) -> Mapping[str, Tensor]:
        return {"post_edit_steps": torch.zeros(rows, 1)}

    def step(self, block: Block, parameters: Mapping[str, Tensor], carried: Carried) -> Change:
        filled = ~block.masked.any(dim=1, keepdim=True)
        carried["post_edit_steps"] = carried["post_edit_steps"] + filled
        exhausted = carried["post_edit_steps"] > parameters["max_post_edit_steps"]
        confident = block.masked & (block.probability > parameters["threshold"])
        editable = ~block.masked & ~block.fixed & (block.token != block.ids)
        edited = editable & (block.probability > parameters["edit_threshold"])
        chosen = (at_least_one(confident, block) | edited) & ~exhausted
        return Change(torch.where(chosen, block.token, block.ids), ~chosen.any(dim=1))
