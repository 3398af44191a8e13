"""How far a mean of a few rounds may be off."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import stdev

SURE = "95 %"
# Student's t: two-sided, of one degree of freedom and more.
_QUANTILES = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def margin(values: Sequence[float]) -> float:
    """Half the width of the interval around their mean that has the true one, as surely as SURE says.

    Infinite of a single value; of more than ten slightly too wide.
    """
    if len(values) < 2:
        return float("inf")
    quantile = _QUANTILES[min(len(values) - 1, len(_QUANTILES)) - 1]
    return quantile * stdev(values) / float(len(values) ** 0.5)
