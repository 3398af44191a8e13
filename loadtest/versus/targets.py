"""What this stack is to reach beside the others."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from loadtest.versus.results import Results
from loadtest.versus.speed import PACED_STREAM
from loadtest.versus.stands import DIRECT, OURS

MOST_ADDED_MS = 3.0
OF_SGLANG_STREAM, OF_SGLANG_JSON, OF_LITELLM_JSON = 1.0, 0.4, 5.0  # requests a second, at least so many times
MOST_OF_A_PEERS_TTFT = 0.2


@dataclass(frozen=True)
class Target:
    """
    Attributes:
        met: None if it was not measured.
        by_spread: short of it, by less than what rounds differ.
    """

    name: str
    found: str
    met: bool | None
    by_spread: bool = False

    def __str__(self) -> str:
        word = {True: "met", False: "MISSED", None: "not measured"}[self.met]
        if self.by_spread:
            word = "met within the spread"
        return f"{word:<21} {self.name}" + (f": {self.found}" if self.found else "")


def targets(results: Results) -> list[Target]:
    return [
        _added(results, "stream c=1"),
        _rate(results, PACED_STREAM, "sglang-router", OF_SGLANG_STREAM),
        _rate(results, "JSON c=64", "litellm", OF_LITELLM_JSON),
        _rate(results, "JSON c=64", "sglang-router", OF_SGLANG_JSON),
        _fair(results),
        _lossless(results),
    ]


def _added(results: Results, workload: str) -> Target:
    name = f"{workload}: at most {MOST_ADDED_MS:g} ms added to TTFT, median"
    ours, direct = (results.speed.get((gateway, workload)) for gateway in (OURS, DIRECT))
    if ours is None or direct is None:
        return Target(name, "", None)
    added = ours.ms("ttft_s", 50) - direct.ms("ttft_s", 50)
    return Target(name, f"{added:.2f} ms", added <= MOST_ADDED_MS)


def _rate(results: Results, workload: str, peer: str, least: float) -> Target:
    """The median of the rounds' ratios; their spread is the median of how far they are from it."""
    name = f"{workload}: at least {least:g} x {peer}'s requests/s"
    ours, theirs = (results.speed.get((gateway, workload)) for gateway in (OURS, peer))
    if ours is None or theirs is None:
        return Target(name, "", None)
    # Of the same round: what else the machine did then slowed both.
    ratios = [own / other for own, other in zip(ours.rates, theirs.rates, strict=True)]
    ratio = median(ratios)
    spread = median(abs(each - ratio) for each in ratios)
    found = f"{ours.rate:.1f} and {theirs.rate:.1f}, {ratio:.3f} x, spread {spread:.3f}"
    return Target(name, found, ratio + spread >= least, by_spread=ratio < least <= ratio + spread)


def _fair(results: Results) -> Target:
    name = f"2 x overload: the light tenant's p99 TTFT at most {MOST_OF_A_PEERS_TTFT:g} x that of every peer"
    p99 = {gateway: trials.overload.ms(99) for gateway, trials in results.trials.items()}
    ours = p99.pop(OURS, None)
    if ours is None or not p99:
        return Target(name, "", None)
    best = min(p99, key=p99.__getitem__)
    ratio = ours / p99[best]
    return Target(
        name, f"{ours:.0f} ms and {p99[best]:.0f} ({best}), {ratio:.2f} x", ratio <= MOST_OF_A_PEERS_TTFT
    )


def _lossless(results: Results) -> Target:
    name = "an engine of two killed: no request lost"
    if OURS not in results.trials:
        return Target(name, "", None)
    killed = results.trials[OURS].killed
    return Target(name, f"{sum(killed.lost)} of {sum(killed.asked)}", not any(killed.lost))
