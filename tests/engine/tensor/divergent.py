"""An algorithm that goes wrong: each rank of an engine commits another token."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from worker.dllm.algorithms.algorithm import Algorithm, Block, Carried, Change, at_least_one, fill


class Divergent(Algorithm):
    only_fills: ClassVar = True

    def step(self, block: Block, parameters: Mapping[str, Tensor], carried: Carried) -> Change:
        rank = torch.distributed.get_rank()
        own = replace(block, token=torch.full_like(block.token, 100 + rank))
        return fill(own, at_least_one(torch.zeros_like(block.masked), block))
