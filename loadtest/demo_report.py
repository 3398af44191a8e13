"""The scores of the demo model as tables, and the targets that it has to meet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from models.demo.evaluate import Repair, Score

# The way of decoding in configs/models/dllm-demo.yaml, with which the others are compared.
DEFAULT = "LowConfidence 0.95"

_LEAST_EXACT = {"counting": 0.95, "lists": 0.90, "arithmetic": 0.80}
_LEAST_TOKENS_PER_FORWARD = ("counting", "LowConfidence 0.9", 4.0)
_LEAST_REPAIRED = 0.80


@dataclass(frozen=True)
class Served(Score):
    """A score through the stack; `forwards` are the engine's own count.

    Attributes:
        seconds: from the first question to the last answer, all asked at once.
        unseen_wordings: asked in words that the model was never trained on.
    """

    seconds: float
    unseen_wordings: bool


@dataclass(frozen=True)
class Target:
    name: str
    found: float
    least: float

    @property
    def met(self) -> bool:
        return self.found >= self.least


@dataclass(frozen=True)
class Total:
    """Of several scores together."""

    exact: float  # share of the items
    tokens_per_forward: float
    tokens_per_s: float


def total(scores: Iterable[Served]) -> Total:
    chosen = list(scores)
    tokens = sum(score.tokens for score in chosen)
    return Total(
        exact=sum(score.exact for score in chosen) / sum(score.items for score in chosen),
        tokens_per_forward=tokens / sum(score.forwards for score in chosen),
        tokens_per_s=tokens / sum(score.seconds for score in chosen),
    )


def targets(scores: Sequence[Served], repairs: Sequence[Repair]) -> list[Target]:
    """Those about which something was measured. Unseen wordings have none."""
    scores = [score for score in scores if not score.unseen_wordings]
    found: list[Target] = []
    for skill, least in _LEAST_EXACT.items():
        if chosen := [s for s in scores if (s.skill, s.algorithm) == (skill, DEFAULT)]:
            found.append(Target(f"{skill}: exact, {DEFAULT}", total(chosen).exact, least))
    skill, algorithm, least = _LEAST_TOKENS_PER_FORWARD
    if chosen := [s for s in scores if (s.skill, s.algorithm) == (skill, algorithm)]:
        rate = total(chosen).tokens_per_forward
        found.append(Target(f"{skill}: tokens per forward, {algorithm}", rate, least))
    if planted := sum(repair.planted for repair in repairs):
        share = sum(repair.repaired for repair in repairs) / planted
        found.append(Target("wrong tokens repaired, JointThreshold speed", share, _LEAST_REPAIRED))
    return found


def print_scores(scores: Sequence[Served]) -> None:
    """Of one way of decoding, a line for each skill and language."""
    print(f"\n{scores[0].algorithm}{', unseen wordings' if scores[0].unseen_wordings else ''}")
    print(f"{'skill':<24}{'language':<10}{'exact':>14}{'tokens/forward':>16}{'tokens/s':>10}")
    for score in scores:
        of_it = total([score])
        share = f"{score.exact}/{score.items} {of_it.exact:4.0%}"
        print(
            f"{score.skill:<24}{score.language:<10}{share:>14}{of_it.tokens_per_forward:16.1f}"
            f"{of_it.tokens_per_s:10.0f}",
            flush=True,
        )


def print_summary(
    scores: Sequence[Served],
    repairs: Sequence[Repair],
    answers: Mapping[str, str],
    targets: Sequence[Target],
) -> None:
    of_rows: dict[str, list[Served]] = {}
    for score in scores:
        row = score.algorithm + (", unseen wordings" if score.unseen_wordings else "")
        of_rows.setdefault(row, []).append(score)
    totals = {row: total(of_row) for row, of_row in of_rows.items()}
    print(f"\n{'all skills':<40}{'exact':>8}{'costs':>8}{'tokens/forward':>16}{'tokens/s':>10}")
    for name, of_it in totals.items():
        cost = f"{totals[DEFAULT].exact - of_it.exact:.1%}" if DEFAULT in totals else ""
        print(
            f"{name:<40}{of_it.exact:8.1%}{cost:>8}{of_it.tokens_per_forward:16.1f}{of_it.tokens_per_s:10.0f}"
        )
    for prompt, answer in answers.items():
        print(f"\n> {prompt}\n{answer}")
    print("\nWrong tokens planted in half-masked blocks, repaired by JointThreshold speed in plain PyTorch:")
    for repair in repairs:
        print(f"{repair.skill:<24}{repair.repaired} of {repair.planted}")
    print()
    for target in targets:
        verdict = "met   " if target.met else "MISSED"
        print(f"{verdict} {target.name}: {target.found:.2f}, at least {target.least:.2f}")
