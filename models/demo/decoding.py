"""Block decoding by the model itself, many prompts at once: what SGLang's two algorithms do, without a KV
cache. Exact, and slow for a single prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.demo.model import Model
from models.demo.shape import BLOCK_SIZE
from models.demo.visibility import block_causal


@dataclass(frozen=True)
class LowConfidence:
    threshold: float = 0.95


@dataclass(frozen=True)
class JointThreshold:
    threshold: float
    edit_threshold: float = 0.0
    max_post_edit_steps: int = 16


Algorithm = LowConfidence | JointThreshold

# As LLaDA2.1 names its two settings: commit early and let editing put it right, or commit late.
SPEED = JointThreshold(threshold=0.5)
QUALITY = JointThreshold(threshold=0.9)


@dataclass(frozen=True)
class Blocks:
    """One block of each of several sequences, in the course of being filled in.

    Attributes:
        context: each sequence's ids before its block; whole blocks.
        ids: [sequences, BLOCK_SIZE], masks where nothing is committed.
        open: [sequences, BLOCK_SIZE], false where the prompt is.
        forwards: [sequences], so far.
    """

    context: list[list[int]]
    ids: Tensor
    open: Tensor
    forwards: Tensor


class Decoder:
    def __init__(self, model: Model, algorithm: Algorithm) -> None:
        self._model, self._algorithm = model, algorithm
        self._mask_id: int = model.config["mask_token_id"]
        self._end: int = model.config["eos_token_id"]
        self._device = next(model.parameters()).device

    def generate(self, prompts: Sequence[list[int]], max_tokens: int) -> tuple[list[list[int]], list[int]]:
        """Each prompt's answer, up to its first end token or of max_tokens, and its number of forwards."""
        sequences = [list(prompt) for prompt in prompts]
        forwards = [0] * len(prompts)
        going = list(range(len(prompts)))
        while going:
            filled = self.fill(self.start([sequences[i] for i in going]))
            for i, ids, used, context in zip(
                going, filled.ids.tolist(), filled.forwards.tolist(), filled.context, strict=True
            ):
                sequences[i] = context + ids
                forwards[i] += used
            going = [
                i
                for i in going
                if self._end not in (answer := sequences[i][len(prompts[i]) :]) and len(answer) < max_tokens
            ]
        answers = [
            sequence[len(prompt) :][:max_tokens] for prompt, sequence in zip(prompts, sequences, strict=True)
        ]
        return [
            answer[: answer.index(self._end)] if self._end in answer else answer for answer in answers
        ], forwards

    def start(self, sequences: Sequence[list[int]]) -> Blocks:
        """The next block of each: its last tokens, if they fill no block, and masks."""
        cuts = [len(sequence) // BLOCK_SIZE * BLOCK_SIZE for sequence in sequences]
        tails = [sequence[cut:] for sequence, cut in zip(sequences, cuts, strict=True)]
        ids = torch.tensor([tail + [self._mask_id] * (BLOCK_SIZE - len(tail)) for tail in tails])
        known = torch.tensor([len(tail) for tail in tails])
        return Blocks(
            [sequence[:cut] for sequence, cut in zip(sequences, cuts, strict=True)],
            ids.to(self._device),
            (torch.arange(BLOCK_SIZE) >= known[:, None]).to(self._device),
            torch.zeros(len(sequences), dtype=torch.long, device=self._device),
        )

    def fill(self, blocks: Blocks) -> Blocks:
        """The blocks, finished."""
        ids, forwards = blocks.ids.clone(), blocks.forwards.clone()
        edits = torch.zeros_like(forwards)
        # Apart from the ids, as a model may predict the mask token.
        masked = (ids == self._mask_id) & blocks.open
        going = torch.arange(len(ids), device=self._device)
        while len(going):
            context = [blocks.context[i] for i in going.tolist()]
            probabilities = self._logits(context, ids[going]).softmax(-1)
            forwards[going] += 1
            confidence, best = probabilities.max(-1)
            was_masked = masked[going]
            if isinstance(self._algorithm, LowConfidence):
                change = _committed(confidence, was_masked, self._algorithm.threshold)
                finished = ~was_masked.any(1)
            else:
                change = _committed(confidence, was_masked, self._algorithm.threshold)
                edits[going] += ~was_masked.any(1)
                wrong = blocks.open[going] & ~was_masked & (best != ids[going])
                change |= wrong & (confidence > self._algorithm.edit_threshold)
                exhausted = edits[going] > self._algorithm.max_post_edit_steps
                change &= ~exhausted[:, None]
                finished = ~change.any(1)
            ids[going] = torch.where(change, best, ids[going])
            masked[going] = was_masked & ~change
            going = going[~finished]
        return Blocks(blocks.context, ids, blocks.open, forwards)

    def _logits(self, context: Sequence[list[int]], ids: Tensor) -> Tensor:
        """Of the blocks, float32 [sequences, BLOCK_SIZE, vocabulary]."""
        longest = max(map(len, context)) + BLOCK_SIZE
        # What pads a shorter sequence comes after its block, which does not see it.
        padded = torch.tensor([before + [self._end] * (longest - len(before)) for before in context])
        sequences = padded.to(self._device)
        starts = torch.tensor([len(before) for before in context], device=self._device)
        places = starts[:, None] + torch.arange(BLOCK_SIZE, device=self._device)
        sequences = sequences.scatter(1, places, ids)
        positions = torch.arange(longest, device=self._device).expand_as(sequences)
        with torch.no_grad():
            hidden = self._model(sequences, positions, block_causal(longest, self._device))
            own = hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[-1]))
            logits: Tensor = self._model.lm_head(own)
        return logits.float()


def _committed(confidence: Tensor, masked: Tensor, threshold: float) -> Tensor:
    """Masked positions above the threshold; in a block without any, the most confident one."""
    confidence = confidence.masked_fill(~masked, -1.0)
    sure = confidence > threshold
    first = torch.zeros_like(masked).scatter(1, confidence.argmax(1, keepdim=True), True) & masked
    return torch.where(sure.any(1, keepdim=True), sure & masked, first)
