"""How sure a figure is: the same figure of many samples drawn from its own data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]  # (samples, members): how often each was drawn

_AT_ONCE = 4_000_000  # numbers in memory


def drawn(sizes: Sequence[int], samples: int, random: np.random.Generator) -> Counts:
    """Rounds drawn again, as many as there are, and of each its members drawn again.

    Args:
        sizes: members of each round.
    """
    rounds = random.multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), samples)
    of_each = [
        random.multinomial(rounds[:, place] * size, np.full(size, 1 / size))
        for place, size in enumerate(sizes)
    ]
    return np.concatenate(of_each, axis=1)


@dataclass(frozen=True)
class Values:
    """Values of members. They are drawn a member at a time: those of one are not independent.

    Attributes:
        value, weight: sorted by value; a weight is how often it counts.
        owner: the member, by its place.
        members: how many there are, those without a value included.
    """

    value: Floats
    weight: Floats
    owner: NDArray[np.int64]
    members: int

    @classmethod
    def of(cls, members: Sequence[Sequence[tuple[float, float]]]) -> Values:
        """Args: members: of each the values with their weights."""
        rows = [(value, weight, owner) for owner, pairs in enumerate(members) for value, weight in pairs]
        table = np.array(sorted(rows), dtype=float).reshape(-1, 3)
        return cls(table[:, 0], table[:, 1], table[:, 2].astype(np.int64), len(members))

    def figures(self, counts: Counts, percents: Sequence[float]) -> Floats:
        """Of each sample the mean and these percentiles, as numpy has them of repeated values.

        Returns: (1 + percents, samples).
        """
        rows = max(_AT_ONCE // max(len(self.value), 1), 1)
        parts = [
            self._figures(counts[start : start + rows], percents) for start in range(0, len(counts), rows)
        ]
        return np.concatenate(parts, axis=1)

    def once(self) -> Counts:
        """One sample: each member as it is."""
        return np.ones((1, self.members), dtype=np.int64)

    def _figures(self, counts: Counts, percents: Sequence[float]) -> Floats:
        weights = counts[:, self.owner] * self.weight
        ends = np.cumsum(weights, axis=1)
        total = ends[:, -1]
        total = np.where(total > 0, total, np.nan)  # of a sample that has drawn no member with a value
        found = [weights @ self.value / total]
        # All samples behind each other, so that one search does for all.
        starts = np.arange(len(counts)) * (float(ends[:, -1].max()) + 1)
        row = np.arange(len(counts)) * len(self.value)
        ends = (ends + starts[:, None]).ravel()
        for percent in percents:
            place = (total - 1) * percent / 100
            below = np.floor(place)
            low, high = (
                self.value[np.searchsorted(ends, each + starts, side="right") - row]
                for each in (below, np.ceil(place))
            )
            found.append(low + (high - low) * (place - below))
        return np.array(found)
