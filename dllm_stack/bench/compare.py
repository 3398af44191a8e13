"""Two runs side by side, or two sets of rounds, and which differences are more than chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dllm_stack.bench import metrics, result
from dllm_stack.bench.bootstrap import Counts, Values, drawn
from dllm_stack.bench.problem import Problem
from dllm_stack.bench.records import Record
from dllm_stack.bench.result import Result

_SAMPLES = 2000
SLICES = 20  # of a run's time, drawn again for its throughput
_FEW = 30  # requests: below, say so


@dataclass(frozen=True)
class Difference:
    """
    Attributes:
        a, b: the figure of either side.
        low, high: of b / a, the ends of its confidence interval.
        more_is_better: which of them is.
    """

    name: str
    a: float
    b: float
    low: float
    high: float
    more_is_better: bool

    @property
    def ratio(self) -> float:
        return self.b / self.a

    @property
    def verdict(self) -> str:
        if self.low <= 1 <= self.high:
            return "no difference seen"
        return "B is better" if (self.ratio > 1) == self.more_is_better else "B is worse"


def rounds(path: Path, option: str) -> list[Result]:
    """One run's file, or those of a folder's runs.

    Raises:
        Problem
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise Problem(option, f"{path} has no .json")
    found = [result.load(file, option) for file in files]
    for file, each in zip(files, found, strict=True):
        if not each.figures.completed:
            raise Problem(option, f"{file} has no answered request")
    return found


def differences(
    a: Sequence[Result], b: Sequence[Result], confidence: float, seed: int
) -> Iterator[Difference]:
    """Args: confidence: of the intervals, 0.95 say."""
    random = np.random.default_rng(seed)
    rates: dict[str, _Came] = {
        "Request throughput (req/s)": _ends,
        "Output token throughput (tok/s)": _tokens,
    }
    sides = [a, b]
    slices = [drawn([SLICES] * len(side), _SAMPLES, random) for side in sides]
    for name, came in rates.items():
        values = [_rates(side, came) for side in sides]
        yield from _compared([name], values, slices, (), confidence, more_is_better=True)
    requests = [drawn([found.figures.completed for found in side], _SAMPLES, random) for side in sides]
    for name, quantity, more_is_better in _QUANTITIES:
        values = [_values(side, quantity) for side in sides]
        if all(len(side.value) for side in values):
            names = [f"{part} {name}" for part in ("Mean", "Median", "P99")]
            yield from _compared(names, values, requests, (50, 99), confidence, more_is_better=more_is_better)


def _compared(
    names: list[str],
    values: list[Values],
    counts: list[Counts],
    percents: tuple[float, ...],
    confidence: float,
    *,
    more_is_better: bool,
) -> Iterator[Difference]:
    """Those with a ratio. A figure that is 0 in A has none, as the time between chunks that come together."""
    points = [side.figures(side.once(), percents)[:, 0] for side in values]
    samples = [side.figures(drawn, percents) for side, drawn in zip(values, counts, strict=True)]
    outside = (1 - confidence) / 2 * 100
    with np.errstate(divide="ignore", invalid="ignore"):  # a sample of A may be 0, though A is not
        ratios = samples[1] / samples[0]
    for place, name in enumerate(names):
        if not points[0][place]:
            continue
        # A sample may have drawn none of the few requests that have this value: it is left out. "nearest", as
        # nothing lies between a number and infinity.
        low, high = np.nanpercentile(ratios[place], (outside, 100 - outside), method="nearest")
        yield Difference(
            name,
            float(points[0][place]),
            float(points[1][place]),
            float(low),
            float(high),
            more_is_better,
        )


def lines(a: Sequence[Result], b: Sequence[Result], confidence: float, seed: int) -> Iterator[str]:
    """A table, and what to mind."""
    for name, side in (("A", a), ("B", b)):
        first = side[0]
        answered = sum(found.figures.completed for found in side)
        failed = sum(sum(found.figures.errors.values()) for found in side)
        yield (
            f"{name}: {first.load.model} at {first.load.url}, {len(side)} round{'s' * (len(side) > 1)}, "
            f"{answered} answered{f', {failed} failed' if failed else ''}, {first.began}"
        )
    yield ""
    interval = f"{confidence:.0%} interval"
    yield f"{'':<34}{'A':>11}{'B':>11}{'B / A':>8}  {interval:<16}"
    for each in differences(a, b, confidence, seed):
        yield (
            f"{each.name:<34}{each.a:>11.2f}{each.b:>11.2f}{each.ratio:>8.3f}  "
            f"{f'{each.low:.3f} to {each.high:.3f}':<16}  {each.verdict}"
        )
    yield ""
    yield from _to_mind(a, b)


def _to_mind(a: Sequence[Result], b: Sequence[Result]) -> Iterator[str]:
    several = min(len(a), len(b)) > 1
    over = "rounds and " if several else ""
    yield (
        f"Intervals: bootstrap of {_SAMPLES} samples; for times over {over}requests, for throughput over "
        f"{over}{SLICES} slices of each run's time."
    )
    if not several:
        yield "Of one round they know nothing of how rounds differ: give folders of several, run in turns."
    if min(sum(found.figures.completed for found in side) for side in (a, b)) < _FEW:
        yield f"There are fewer than {_FEW} requests on a side: its high percentiles are single requests."
    first, second = a[0].load.options, b[0].load.options
    other = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    if other:
        yield "The loads differ: " + ", ".join(f"{n} {first.get(n)} / {second.get(n)}" for n in other)


_Quantity = Callable[[Record], list[tuple[float, float]]]


def _ms(quantity: Callable[[Record], list[float]]) -> _Quantity:
    return lambda record: [(value * 1000, 1.0) for value in quantity(record)]


def _itl(record: Record) -> list[tuple[float, float]]:
    return [(gap * 1000 / (tokens or 1), float(tokens or 1)) for gap, tokens in record.gaps()]


def _between_chunks(record: Record) -> list[tuple[float, float]]:
    return [(gap * 1000, 1.0) for gap, _ in record.gaps()]


def _per_forward(record: Record) -> list[tuple[float, float]]:
    blocks = record.blocks
    return [(blocks.tokens / blocks.forwards, 1.0)] if blocks is not None and blocks.forwards else []


_QUANTITIES: list[tuple[str, _Quantity, bool]] = [
    ("TTFT (ms)", _ms(metrics.ttft), False),
    ("TPOT (ms)", _ms(metrics.tpot), False),
    ("ITL (ms)", _itl, False),
    ("inter-chunk (ms)", _between_chunks, False),
    ("E2E latency (ms)", _ms(metrics.e2e), False),
    ("TPF of a request", _per_forward, True),
]


def _values(side: Sequence[Result], quantity: _Quantity) -> Values:
    """Of each answered request."""
    return Values.of([quantity(record) for found in side for record in found.records if record.answered])


_Came = Callable[[Record], list[tuple[float, int]]]


def _ends(record: Record) -> list[tuple[float, int]]:
    return [(record.sent_s + record.latency_s, 1)]


def _tokens(record: Record) -> list[tuple[float, int]]:
    """Each chunk's when it came; of an answer whose chunks have no number, all at its end."""
    if any(chunk.tokens is None for chunk in record.chunks):
        return [(record.sent_s + record.latency_s, record.generated)]
    return [(record.sent_s + chunk.at_s, chunk.tokens or 0) for chunk in record.chunks]


def _rates(side: Sequence[Result], came: _Came) -> Values:
    """What came in each slice of each round's time, a second."""
    slices: list[list[tuple[float, float]]] = []
    for found in side:
        duration_s = found.figures.duration_s
        all_came = [each for record in found.records if record.answered for each in came(record)]
        times, amounts = np.array(all_came, dtype=float).reshape(-1, 2).T
        sums = np.histogram(np.minimum(times, duration_s), SLICES, (0, duration_s), weights=amounts)[0]
        slices += [[(float(each) / (duration_s / SLICES), 1.0)] for each in sums]
    return Values.of(slices)
