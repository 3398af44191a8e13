"""How near the model itself, in float32, comes to deciding otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from models.demo.model import Model
from models.demo.shape import BLOCK_SIZE
from models.demo.visibility import block_causal


@dataclass(frozen=True)
class Decision:
    """One that LowConfidence takes in a step.

    Attributes:
        kind: whether a position is above the threshold; which position is first where none is; which
            token it gets.
        margin: the difference of two probabilities that decides it.
        step: from 0.
        place: in the block.
    """

    kind: Literal["threshold", "position", "token"]
    margin: float
    step: int
    place: int


@dataclass(frozen=True)
class Block:
    """A block as the model decodes it.

    Attributes:
        ids: [BLOCK_SIZE].
        decisions: all that were taken.
        committed: for each position the step that filled it; -1 where the prompt is.
        probabilities: [BLOCK_SIZE, vocabulary], each position's in that step.
    """

    ids: list[int]
    decisions: list[Decision]
    committed: list[int]
    probabilities: Tensor

    @property
    def narrowest(self) -> Decision:
        return min(self.decisions, key=lambda decision: decision.margin)


def decode(model: Model, sequence: list[int], threshold: float) -> Block:
    """The block after the sequence's whole ones, masked at first where the sequence has ended."""
    config = model.config
    start = len(sequence) // BLOCK_SIZE * BLOCK_SIZE
    ids = torch.tensor(sequence + [config["mask_token_id"]] * (start + BLOCK_SIZE - len(sequence)))
    masked = torch.arange(start, start + BLOCK_SIZE) >= len(sequence)
    positions = torch.arange(len(ids))
    visible = block_causal(len(ids), positions.device)
    committed = torch.full((BLOCK_SIZE,), -1)
    kept = torch.zeros(BLOCK_SIZE, config["vocab_size"])
    decisions: list[Decision] = []
    step = 0
    while masked.any():
        with torch.no_grad():
            hidden = model(ids[None], positions[None], visible)[0, start:]
            probabilities = model.lm_head(hidden).float().softmax(-1)
        (confidence, second), best = (part.T for part in probabilities.topk(2, -1))
        sure = masked & (confidence > threshold)
        for place in masked.nonzero().flatten().tolist():
            margin = abs(float(confidence[place]) - threshold)
            decisions.append(Decision("threshold", margin, step, place))
        if not sure.any():
            ranked = confidence.masked_fill(~masked, -1).topk(2)
            first = int(ranked.indices[0])
            if masked.sum() > 1:
                margin = float(ranked.values[0] - ranked.values[1])
                decisions.append(Decision("position", margin, step, first))
            sure = torch.arange(BLOCK_SIZE) == first
        for place in sure.nonzero().flatten().tolist():
            decisions.append(Decision("token", float(confidence[place] - second[place]), step, place))
        ids[start:][sure] = best[0][sure]
        kept[sure], committed[sure] = probabilities[sure], step
        masked &= ~sure
        step += 1
    return Block(ids[start:].tolist(), decisions, committed.tolist(), kept)


def retrace(model: Model, prompt: list[int], answer: list[int], threshold: float) -> Iterator[Block]:
    """Each block of the answer, given what the answer has before it."""
    sequence = prompt + answer
    for start in range(len(prompt) // BLOCK_SIZE * BLOCK_SIZE, len(sequence), BLOCK_SIZE):
        yield decode(model, sequence[: max(start, len(prompt))], threshold)
