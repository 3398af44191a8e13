"""Where two records differ first, and how near the model was to either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from models.demo.agreement import replay
from models.demo.agreement.record import Record
from models.demo.model import Model
from models.demo.shape import BLOCK_SIZE

_AROUND = 8  # tokens shown before and after a difference
# A probability that bfloat16, with its 8 bits, may well move this far.
_CLOSE = 0.01


@dataclass(frozen=True)
class Difference:
    """The first one of two answers.

    Attributes:
        prompt: its number.
        position: in the answer.
        block: of the answer, from 0; the first one may begin with the end of the prompt.
    """

    prompt: int
    position: int
    block: int


def differences(
    prompts: Sequence[list[int]], ours: Sequence[list[int]], theirs: Sequence[list[int]]
) -> list[Difference]:
    """One for each pair of answers that are not equal; nothing for the others."""
    found = []
    for number, (prompt, one, other) in enumerate(zip(prompts, ours, theirs, strict=True)):
        if one != other:
            pairs = zip(one, other, strict=False)
            shorter = min(len(one), len(other))
            position = next((i for i, (a, b) in enumerate(pairs) if a != b), shorter)
            block = (len(prompt) + position) // BLOCK_SIZE - len(prompt) // BLOCK_SIZE
            found.append(Difference(number, position, block))
    return found


def check_comparable(one: Record, other: Record) -> None:
    """Raises ValueError: the two were not asked the same."""
    for name in ("weights", "threshold", "max_tokens", "prompts"):
        if getattr(one, name) != getattr(other, name):
            raise ValueError(f"{name} are not the same in the two records")


class Explanation:
    """Differences in words."""

    def __init__(self, model: Model, tokenizer: Tokenizer, threshold: float) -> None:
        self._model, self._tokenizer, self._threshold = model, tokenizer, threshold

    def of_the_model(self, prompts: Sequence[list[int]], answers: Sequence[list[int]]) -> list[str]:
        """Whether the answers are its own, and how narrowly."""
        same = 0
        margins: list[float] = []
        for prompt, answer in zip(prompts, answers, strict=True):
            ids: list[int] = []
            for block in replay.retrace(self._model, prompt, answer, self._threshold):
                ids += block.ids
                margins += [decision.margin for decision in block.decisions]
            known = len(prompt) % BLOCK_SIZE
            same += ids[known : known + len(answer)] == answer
        close = sum(margin < _CLOSE for margin in margins)
        return [
            f"the model in float32 writes {same} of {len(answers)} as the first record has them alone:",
            f"  {close} of its {len(margins)} decisions by less than {_CLOSE}, "
            f"the narrowest by {min(margins):.1e}",
        ]

    def of(self, difference: Difference, prompt: list[int], one: list[int], other: list[int]) -> list[str]:
        lines = [f"at answer token {difference.position}, block {difference.block}:"]
        for name, answer in (("first", one), ("second", other)):
            around = answer[max(0, difference.position - _AROUND) : difference.position + _AROUND]
            lines.append(f"  {name + ':':8}{self._tokenizer.decode(around)!r}")
        return lines + self._margins(difference, prompt, one, other)

    def _margins(
        self, difference: Difference, prompt: list[int], one: list[int], other: list[int]
    ) -> list[str]:
        if difference.position >= min(len(one), len(other)):
            return ["  one is the beginning of the other"]
        place = len(prompt) + difference.position
        start = place // BLOCK_SIZE * BLOCK_SIZE
        # Up to the block, but no less than the prompt: all that the two answers share for certain.
        known = (prompt + one)[: max(start, len(prompt))]
        block = replay.decode(self._model, known, self._threshold)
        here = place - start
        candidates = [one[difference.position], other[difference.position]]
        chances = [float(block.probabilities[here, token]) for token in candidates]
        sides = ["first", "second"]
        follows = sides[candidates.index(block.ids[here])] if block.ids[here] in candidates else "neither"
        nearest = block.narrowest
        return [
            f"  the model in float32 follows {follows}: probabilities {chances[0]:.4f} and {chances[1]:.4f} "
            f"in step {block.committed[here]}",
            f"  its narrowest decision in the block: {nearest.kind}, by {nearest.margin:.2e}, "
            f"step {nearest.step}, place {nearest.place}",
        ]
