"""The table of the H200 against figures of docs/benchmarks.md, most of which it was not made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from loadtest.simulator.clock import ComputedClock
from loadtest.simulator.engine import Finish, Request, SimulatedEngine
from loadtest.simulator.rounds import MeasuredPace
from loadtest.simulator.table import Table
from loadtest.simulator.voice import BLOCK, Voice

_SLOTS = 64
# "A denoise step", ours: tokens/s of so many requests at once, of which a step commits one token.
_BATCHES = {1: 284, 8: 767, 32: 1354, 64: 1937}
_BATCH_PROMPT, _BATCH_TOKENS = 512, 128
# "A prompt", ours: ms to the first block, every token sure.
_PROMPTS = {32: 16.1, 256: 19.0, 992: 26.2, 4000: 61.3}
# The same beside a running stream: from block to block of it, the longest of these, the prompt's first block.
_LONG_PROMPT, _BLOCK_MS, _LONGEST_MS, _LONG_MS = 16_000, 7.7, 16.8, 1081
_STREAM_BLOCKS, _AT_S = 200, 0.3


@dataclass(frozen=True)
class Figure:
    """
    Attributes:
        must_agree: False where the engine's own jitter is in it.
    """

    name: str
    measured: float
    simulated: float
    must_agree: bool = True

    @property
    def ratio(self) -> float:
        return self.simulated / self.measured


class _Stand:
    def __init__(self, voice: Voice, steps: int) -> None:
        """Args: steps: denoise steps of every block."""
        self.clock = ComputedClock()
        table = msgspec.structs.replace(Table.read("h200"), steps={steps: 1})
        self.engine = SimulatedEngine(voice, _SLOTS, MeasuredPace(table), self.clock)
        self._number = 0

    def ask(self, prompt: int, tokens: int) -> list[float]:
        """Args: prompt: its tokens. Returns when each block comes, in ms, as they come."""
        seen: list[float] = []
        self._number += 1

        def tell(request: Request, finish: Finish | None) -> None:
            seen.append(1000 * self.clock.now())

        self.engine.submit(str(self._number), [self._number] * prompt, tokens, tell)
        return seen


def figures(voice: Voice) -> Iterator[Figure]:
    for batch, tokens_per_s in _BATCHES.items():
        stand = _Stand(voice, steps=BLOCK)
        for _ in range(batch):
            stand.ask(_BATCH_PROMPT, _BATCH_TOKENS)
        stand.clock.run()
        yield Figure(f"tokens/s, batch {batch}", tokens_per_s, batch * _BATCH_TOKENS / stand.clock.now())
    for prompt, ttft_ms in _PROMPTS.items():
        stand = _Stand(voice, steps=1)
        seen = stand.ask(prompt, BLOCK)
        stand.clock.run()
        yield Figure(f"first block, prompt of {prompt} tokens, ms", ttft_ms, seen[0])
    stand = _Stand(voice, steps=1)
    stream = stand.ask(BLOCK, _STREAM_BLOCKS * BLOCK)
    stand.clock.run(until=_AT_S)
    long = stand.ask(_LONG_PROMPT, BLOCK)
    stand.clock.run()
    gaps = [after - before for before, after in pairwise(stream)]
    yield Figure("between blocks of a stream, ms", _BLOCK_MS, min(gaps))
    yield Figure(f"first block beside it, prompt of {_LONG_PROMPT}, ms", _LONG_MS, long[0] - 1000 * _AT_S)
    yield Figure("the stream's longest gap meanwhile, ms", _LONGEST_MS, max(gaps), must_agree=False)
