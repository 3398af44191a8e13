from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from worker.dllm.algorithms.algorithm import Algorithm, Block, Carried, Change, at_least_one, fill


class Hierarchical(Algorithm):
    """Commits what is above a threshold, and in each masked span without such a position the best one.

    The best of a span is taken when it is above the lower threshold. Spans are apart from each other, so that
    their tokens depend little on one another, and each token committed inside one splits it: few steps reach
    all of a block (hierarchical decoding of dInfer, arXiv 2510.08666).
    """

    defaults: ClassVar = {"threshold": 0.9, "low_threshold": 0.6}
    only_fills: ClassVar = True

    def step(self, block: Block, parameters: Mapping[str, Tensor], carried: Carried) -> Change:
        masked, probability = block.masked, block.probability
        confident = masked & (probability > parameters["threshold"])
        # Spans are numbered by where they begin; what is between them belongs to the one before.
        begins = masked.clone()
        begins[:, 1:] &= ~masked[:, :-1]
        span = begins.cumsum(dim=1)
        best = probability.new_zeros(len(masked), masked.shape[1] + 1)
        best = best.scatter_reduce(1, span, probability.masked_fill(~masked, 0.0), "amax")
        served = torch.zeros_like(best).scatter_reduce(1, span, confident.float(), "amax") > 0
        top = masked & (probability == best.gather(1, span)) & ~served.gather(1, span)
        # Of equals in one span the first alone: those before it have been counted.
        earlier = top.cumsum(dim=1) - top.int()
        at_begin = torch.where(begins, earlier, 0).cummax(dim=1).values
        first = top & (earlier == at_begin)
        hopeful = first & (probability > parameters["low_threshold"])
        return fill(block, at_least_one(confident | hopeful, block))
