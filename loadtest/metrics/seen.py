"""What clients have measured themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from loadtest.simulator.voice import BLOCK

BLOCK_S, PREFILL_S = 0.1, 0.002  # the pace of the engine, which they know


@dataclass
class Seen:
    """By the clients, in seconds and tokens."""

    first: list[float] = field(default_factory=list)
    wait: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    token_gaps: list[float] = field(default_factory=list)  # one a token
    whole: list[float] = field(default_factory=list)
    chunks: list[int] = field(default_factory=list)
    prompt_tokens: int = 0

    def answer(
        self, sent: float, events: Sequence[tuple[float, int]], ended: float, prompt_tokens: int
    ) -> None:
        """
        Args:
            events: when each came, and with how many tokens.
        """
        self.first.append(events[0][0] - sent)
        self.wait.append(max(0.0, self.first[-1] - BLOCK_S - -(-prompt_tokens // BLOCK) * PREFILL_S))
        self.chunks += [tokens for _, tokens in events]
        for (before, _), (at, tokens) in pairwise(events):
            self.gaps.append(at - before)
            self.token_gaps += [(at - before) / tokens] * tokens
        self.whole.append(ended - sent)
        self.prompt_tokens += prompt_tokens


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value such that this share is not above it."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
