"""What one read of the logits gives, and how a row that samples is drawn."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

LEAST = -(2.0**100)
"""Logits below this, -inf and NaN count as this, so that no difference of two of them is undefined."""

LEFT_OUT = -(2.0**107)
"""Stands for a logit that does not take part; its exponential is 0 beside `LEAST` too."""

LEAST_TEMPERATURE = 1e-5
"""Below it a draw is an argmax; a smaller divisor would take logits out of float32's range."""


@dataclass(frozen=True)
class Evidence:
    """Of each row of logits [R]; `probability` is exp(`logit` - `normalizer`).

    All but `token` describe the softmax of the logits after penalty, also where the row samples: a
    threshold then means the same at every temperature, and what is drawn from one token is what is taken
    without drawing. (Measured by the distribution drawn from, the only token that top_k=1 leaves would be
    certain, and every position committed at once.)
    """

    token: Tensor  # int64: the most probable (or the drawn) token, never the mask; ties: the lowest id
    probability: Tensor  # float32
    entropy: Tensor  # float32, nats
    logit: Tensor  # float32: of `token`
    normalizer: Tensor  # float32: log-sum-exp


@dataclass(frozen=True)
class Draw:
    """How each row [R] is sampled."""

    temperature: Tensor  # float32; 0: the most probable token
    floor: Tensor  # float32: lower logits are left out, see `filters.floor`; -inf: none is
    seed: Tensor  # int64 in [0, 2**32), see `noise.position_seeds`
