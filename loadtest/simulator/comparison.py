"""Whether two sides agree, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import mean

from loadtest.margin import SURE, margin
from loadtest.simulator.load import Seen

ALLOWED = 0.10
_FIGURES = {
    "ttft_s": ("first block, ms", 1000),
    "interval_s": ("between blocks, ms", 1000),
    "tokens_per_s": ("tokens/s", 1),
    "tokens_per_forward": ("tokens a forward", 1),
}


@dataclass(frozen=True)
class Ratio:
    """A mean over rounds by another.

    Attributes:
        margin: how far the ratio may be off, for the rounds differ: in their questions, in what is drawn, and
            in what else the machine did.
    """

    engine: float
    simulator: float
    margin: float

    @classmethod
    def of(cls, engine: Sequence[float], simulator: Sequence[float]) -> Ratio:
        """Args: engine, simulator: of each round, which is the same one of both."""
        of_engine, of_simulator = mean(engine), mean(simulator)
        ratio = of_simulator / of_engine
        # Of a ratio of means the error, to first order.
        away = [(s - ratio * e) / of_engine for e, s in zip(engine, simulator, strict=True)]
        return cls(of_engine, of_simulator, margin(away))

    @property
    def value(self) -> float:
        return self.simulator / self.engine

    @property
    def good(self) -> bool:
        return abs(self.value - 1) <= ALLOWED

    @property
    def verdict(self) -> str:
        distance = abs(self.value - 1)
        sure = abs(distance - ALLOWED) >= self.margin
        word = "" if self.good else f"MORE THAN {100 * ALLOWED:g} % APART"
        return word if sure else f"{word or 'within'}, not for sure"


@dataclass(frozen=True)
class Comparison:
    """Attributes: ratios: by the figure's name and the number of clients."""

    ratios: dict[tuple[str, int], Ratio]

    @property
    def good(self) -> bool:
        return all(ratio.good for ratio in self.ratios.values())

    def lines(self) -> Iterator[str]:
        yield f"{'':<20} {'clients':>7} {'engine':>9} {'simulator':>9} {'ratio':>7} {SURE:>8}"
        for (name, clients), ratio in self.ratios.items():
            yield (
                f"{name:<20} {clients:>7} {ratio.engine:>9.2f} {ratio.simulator:>9.2f} {ratio.value:>7.3f}"
                f" {f'+-{ratio.margin:.3f}':>8}  {ratio.verdict}"
            ).rstrip()


def compare(
    engine: Mapping[int, Sequence[Sequence[Seen]]], simulator: Mapping[int, Sequence[Sequence[Seen]]]
) -> Comparison:
    """Args: engine, simulator: by the number of clients; of each round, of whoever answered in it."""
    ratios = {}
    for field in fields(Seen):
        name, scale = _FIGURES[field.name]
        for clients in engine:
            sides = (
                [scale * mean(getattr(each, field.name) for each in seen) for seen in side[clients]]
                for side in (engine, simulator)
            )
            ratios[name, clients] = Ratio.of(*sides)
    return Comparison(ratios)
