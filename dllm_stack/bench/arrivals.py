"""When requests are sent in an open loop."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dllm_stack.bench.choices import Arrivals


def times(
    count: int, rate: float, arrivals: Arrivals, burstiness: float, random: np.random.Generator
) -> NDArray[np.float64]:
    """Seconds from the start of the run, the first request at 0.

    Args:
        rate: requests a second, on average.
        burstiness: of GAMMA, the shape of the distribution of gaps, whose coefficient of variation is its
            -1/2th power: 1 is Poisson, less is burstier.
    """
    mean = 1.0 / rate
    match arrivals:
        case Arrivals.CONSTANT:
            gaps = np.full(count, mean)
        case Arrivals.POISSON:
            gaps = random.exponential(mean, count)
        case Arrivals.GAMMA:
            gaps = random.gamma(burstiness, mean / burstiness, count)
    gaps[:1] = 0.0
    return np.cumsum(gaps)
