from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from worker.dllm.algorithms.algorithm import Algorithm, Block, Carried, Change, at_least_one, fill


class LowConfidence(Algorithm):
    """Commits every masked position whose token is more probable than a threshold, else the most probable.

    The same tokens as SGLang's LowConfidence, with the mask left out of what can be committed. The rule is
    Fast-dLLM's confidence-aware parallel decoding (arXiv 2505.22618).
    """

    defaults: ClassVar = {"threshold": 0.95}
    only_fills: ClassVar = True
    samples: ClassVar = True

    def step(self, block: Block, parameters: Mapping[str, Tensor], carried: Carried) -> Change:
        confident = block.masked & (block.probability > parameters["threshold"])
        return fill(block, at_least_one(confident, block))
