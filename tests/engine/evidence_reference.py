"""What one row of logits says, worked out plainly in float64: the evidence must agree with it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from worker.dllm.evidence import Evidence, noise
from worker.dllm.evidence.values import LEAST

# Ties, missing tokens, values that overflow an exponential, and anything between.
LOGITS = st.one_of(
    st.sampled_from([-math.inf, -1e4, -1.0, 0.0, 0.5, 0.5, 7.25, 7.25, 1e4]),
    st.floats(-40, 40, width=32),
)
TYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])


@st.composite
def logits_of(draw: st.DrawFn, rows: int = 3, least_vocabulary: int = 4) -> Tensor:
    vocabulary = draw(st.integers(least_vocabulary, 70))
    line = st.lists(LOGITS, min_size=vocabulary, max_size=vocabulary)
    return torch.tensor(draw(st.lists(line, min_size=rows, max_size=rows))).to(draw(TYPES))


@dataclass
class Row:
    """Temperature 0: the most probable token."""

    logits: Tensor  # [V]
    mask_id: int
    penalised: int = -1
    penalty: float = 0.0
    temperature: float = 0.0
    floor: float = -math.inf
    seed: int = 0

    def check(self, evidence: Evidence, row: int) -> None:
        """Fails where the row of the evidence is not this row's."""
        values = self._values()
        scores = {token: value for token, value in values.items() if token != self.mask_id}
        if self.temperature:
            seeds = torch.tensor([self.seed])
            gumbel = noise.gumbel(seeds, torch.arange(len(self.logits)))[0].tolist()
            scores = {
                token: max(value / self.temperature, LEAST) + gumbel[token]
                for token, value in scores.items()
                if value >= self.floor
            }
        best = max(scores.values())
        token = int(evidence.token[row])
        if self.temperature:
            # float32 may take one of two scores that differ in its last bits.
            assert scores[token] >= best - 1e-5 * (1 + abs(best))
        else:
            assert token == min(one for one, score in scores.items() if score == best)
        below = {one: value - max(values.values()) for one, value in values.items()}
        total = sum(math.exp(difference) for difference in below.values())
        shares = {one: math.exp(difference) / total for one, difference in below.items()}
        entropy = math.log(total) - sum(shares[one] * below[one] for one in values)
        off = 4e-5
        normalizer = max(values.values()) + math.log(total)
        assert float(evidence.logit[row]) == pytest.approx(values[token], rel=2e-6, abs=off)
        assert float(evidence.normalizer[row]) == pytest.approx(normalizer, rel=2e-6, abs=off)
        assert float(evidence.probability[row]) == pytest.approx(shares[token], rel=2e-6, abs=off)
        assert float(evidence.entropy[row]) == pytest.approx(entropy, rel=2e-6, abs=off)

    def _values(self) -> dict[int, float]:
        """By token, after the penalty."""
        logits = self.logits.float().numpy().copy()
        if self.penalised >= 0:
            logits[self.penalised] -= np.float32(self.penalty)
        return {token: max(float(value), LEAST) for token, value in enumerate(logits)}
