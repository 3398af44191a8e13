from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from worker.dllm.algorithms.algorithm import Algorithm, Block, Carried, Change, at_least_one, fill

_CANDIDATES = 4
_EXPONENT = 0.5  # of the leader's probability: the less it is, the more an unsure leader gains


class Credit(Algorithm):
    """LowConfidence with a memory: a token that has led for several steps needs less confidence.

    Each position keeps its recent leading tokens with a credit, which every step multiplies by
    `credit_decay`; the present leader gains the square root of its probability. A credit c adds
    `credit_weight` x ln(1 + c) to its token's logit, and the thresholds look at the probabilities that
    result (CreditDecoding, arXiv 2510.06133; there every token of the vocabulary has a credit,
    here the four with the largest at each position).
    """

    defaults: ClassVar = {"threshold": 0.95, "credit_weight": 0.65, "credit_decay": 0.7}
    only_fills: ClassVar = True

    def begin(self, rows: int, length: int) -> Mapping[str, Tensor]:
        return {
            "candidates": torch.full((rows, length, _CANDIDATES), -1),
            "credits": torch.zeros(rows, length, _CANDIDATES),
        }

    def step(self, block: Block, parameters: Mapping[str, Tensor], carried: Carried) -> Change:
        candidates, credits = self._credited(block, parameters, carried)
        carried["candidates"], carried["credits"] = candidates, credits
        token, probability = self._enhanced(block, parameters, candidates, credits)
        confident = block.masked & (probability > parameters["threshold"])
        sure = replace(block, token=token, probability=probability)
        return fill(sure, at_least_one(confident, sure))

    def _credited(
        self, block: Block, parameters: Mapping[str, Tensor], carried: Carried
    ) -> tuple[Tensor, Tensor]:
        """The candidates and their credits with this step's leader among them: [B, L, 4]."""
        candidates = carried["candidates"]
        credits = carried["credits"] * parameters["credit_decay"][..., None]
        leads = candidates == block.token[..., None]
        # A leader that is no candidate takes the place of the one with the least credit.
        least = torch.zeros_like(leads).scatter_(2, credits.argmin(dim=2, keepdim=True), True)
        place = torch.where(leads.any(dim=2, keepdim=True), leads, least)
        candidates = torch.where(place, block.token[..., None], candidates)
        gained = block.probability[..., None] ** _EXPONENT
        return candidates, torch.where(place, torch.where(leads, credits, 0.0) + gained, credits)

    def _enhanced(
        self, block: Block, parameters: Mapping[str, Tensor], candidates: Tensor, credits: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The best token and its probability once the credits are added: [B, L] each."""
        known = candidates >= 0
        logits = block.logits_of(candidates.clamp(min=0)).masked_fill(~known, float("-inf"))
        bonus = parameters["credit_weight"][..., None] * torch.log1p(credits)
        enhanced = torch.where(known, logits + bonus, float("-inf"))
        # Relative to the plain normalizer, all logits together weigh 1.
        before = (logits - block.normalizer[..., None]).exp()
        after = (enhanced - block.normalizer[..., None]).exp()
        total = 1 + (after - before).sum(dim=2)
        best = enhanced.argmax(dim=2, keepdim=True)
        # The leader of this step is a candidate, so the best is one.
        return candidates.gather(2, best)[..., 0], after.gather(2, best)[..., 0] / total
