"""An algorithm of one's own: commits the leftmost masked tokens, a fixed number in each step."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from worker.dllm.algorithms.algorithm import Algorithm, Block, Carried, Change, fill


class Leftmost(Algorithm):
    defaults: ClassVar = {"tokens": 4}  # of a step
    only_fills: ClassVar = True

    def step(self, block: Block, parameters: Mapping[str, Tensor], carried: Carried) -> Change:
        rank = block.masked.cumsum(dim=1)  # 1 for the first masked position
        return fill(block, block.masked & (rank <= parameters["tokens"]))
