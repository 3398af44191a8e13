"""What is told of many times."""

from __future__ import annotations

import statistics


def milliseconds(seconds: list[float], percent: float) -> float:
    """That so many percent of them do not exceed; infinite without any."""
    if len(seconds) < 2:
        return 1000 * seconds[0] if seconds else float("inf")
    return 1000 * statistics.quantiles(seconds, n=100, method="inclusive")[round(percent) - 1]
