from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from worker.dllm.algorithms.algorithm import Algorithm, Block, Carried, Change, at_least_one, fill


class EntropyBounded(Algorithm):
    """Commits as many of the surest positions as are together uncertain of no more than a bound.

    Sorted by entropy, the first k masked positions are committed for the largest k whose entropies, without
    the last one's, add up to `entropy_bound` nats or less: a bound on what is lost by taking them as
    independent (EB-Sampler, arXiv 2505.24857). 0 commits one
    at a time, and all positions that are certain.
    """

    defaults: ClassVar = {"entropy_bound": 0.5}
    only_fills: ClassVar = True

    def step(self, block: Block, parameters: Mapping[str, Tensor], carried: Carried) -> Change:
        entropy = block.entropy.masked_fill(~block.masked, float("inf"))
        ordered, order = entropy.sort(dim=1, stable=True)
        ordered = ordered.masked_fill(ordered.isinf(), 0.0)
        others = ordered.cumsum(dim=1) - ordered
        within = block.masked.gather(1, order) & (others <= parameters["entropy_bound"])
        chosen = within.new_zeros(within.shape).scatter_(1, order, within)
        return fill(block, at_least_one(chosen, block))
