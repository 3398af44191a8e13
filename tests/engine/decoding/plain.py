"""The decoding algorithms again, one position after the other, in the plainest Python.

What `worker.dllm` decodes has to equal this token for token. Nothing is shared with it but the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dllm_stack.decoding import Decision, Sampling
from worker.dllm.evidence import noise

Logits = Callable[[list[int]], Tensor]
"""The model: the logits [L, V] of the last L tokens of a sequence."""


@dataclass
class PlainBlock:
    """One block of one request.

    Attributes:
        ids: its tokens as they stand.
        masked: whether each is still to be committed.
        fixed: whether each is the prompt's.
        memory: what an algorithm keeps from step to step.
    """

    ids: list[int]
    masked: list[bool]
    fixed: list[bool]
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Guess:
    """What the model says of one position."""

    token: int
    probability: float
    entropy: float
    logits: Tensor  # [V], after penalty


@dataclass(frozen=True)
class PlainAnswer:
    token_ids: list[int]
    forwards: int
    steps: int
    edits: int


def decode(
    logits: Logits,
    prompt: list[int],
    max_tokens: int,
    decision: Decision,
    sampling: Sampling = Sampling(),  # noqa: B008 - frozen
    *,
    block_size: int,
    mask_id: int,
) -> PlainAnswer:
    """Decodes block by block, never stopping at an end token."""
    sequence = list(prompt)
    forwards = steps = edits = 0
    while len(sequence) < len(prompt) + max_tokens:
        start = len(sequence) // block_size * block_size
        known = sequence[start:]
        fixed = [place < len(known) for place in range(block_size)]
        block = PlainBlock(known + [mask_id] * (block_size - len(known)), [not was for was in fixed], fixed)
        limit = decision.parameters.get("max_steps", math.inf)
        done, taken = False, 0
        while not done:
            guesses = _look(logits(sequence[:start] + block.ids), block, decision, sampling, start, mask_id)
            taken += 1
            best = [guess.token for guess in guesses]
            chosen = _ALGORITHMS[decision.algorithm](block, guesses, decision.parameters)
            tokens = {place: guesses[place].token for place in chosen}
            if taken == limit:
                tokens = {place: best[place] for place in _masked(block)} | tokens
            elif taken > limit:
                tokens = {}
            done = not tokens
            steps += bool(tokens)
            edits += sum(not block.masked[place] for place in tokens)
            for place, token in tokens.items():
                block.ids[place], block.masked[place] = token, False
        forwards += taken
        sequence = sequence[:start] + block.ids
    return PlainAnswer(sequence[len(prompt) :][:max_tokens], forwards, steps, edits)


def _look(
    logits: Tensor, block: PlainBlock, decision: Decision, sampling: Sampling, start: int, mask_id: int
) -> list[Guess]:
    guesses = []
    for place in range(len(block.ids)):
        values = logits[place].float().clone()
        penalty = decision.parameters.get("penalty_lambda", 0)
        if penalty and place:
            values[block.ids[place - 1]] -= penalty
        candidates = values.clone()
        candidates[mask_id] = -math.inf
        shares = values.softmax(0)
        token = int(candidates.argmax())
        if sampling.temperature:
            token = _drawn(candidates, sampling, start + place)
        entropy = -float((shares * shares.clamp(min=1e-38).log()).sum())
        guesses.append(Guess(token, float(shares[token]), entropy, values))
    return guesses


def _drawn(candidates: Tensor, sampling: Sampling, position: int) -> int:
    scaled = candidates / sampling.temperature
    if sampling.top_k:
        least = candidates.sort(descending=True).values[min(sampling.top_k, len(candidates)) - 1]
        scaled = scaled.masked_fill(candidates < least, -math.inf)
    if sampling.top_p < 1:
        ordered, order = scaled.softmax(0).sort(descending=True)
        before = ordered.cumsum(0) - ordered
        last = candidates[order[before < sampling.top_p]].min()
        scaled = scaled.masked_fill(candidates < last, -math.inf)
    seed = noise.position_seeds(torch.tensor([sampling.seed]), torch.tensor([[position]]))
    return int((scaled + noise.gumbel(seed, torch.arange(len(candidates)))[0]).argmax())


def _low_confidence(block: PlainBlock, guesses: list[Guess], parameters: dict[str, Any]) -> set[int]:
    threshold = parameters.get("threshold", 0.95)
    return _or_best(block, guesses, {p for p in _masked(block) if guesses[p].probability > threshold})


def _joint_threshold(block: PlainBlock, guesses: list[Guess], parameters: dict[str, Any]) -> set[int]:
    masked = _masked(block)
    if not masked:
        block.memory["looks"] = block.memory.get("looks", 0) + 1
        if block.memory["looks"] > parameters.get("max_post_edit_steps", 16):
            return set()
    threshold = parameters.get("threshold", 0.5)
    committed = _or_best(block, guesses, {p for p in masked if guesses[p].probability > threshold})
    edited = {
        p
        for p in range(len(block.ids))
        if not block.masked[p]
        and not block.fixed[p]
        and guesses[p].token != block.ids[p]
        and guesses[p].probability > parameters.get("edit_threshold", 0.0)
    }
    return committed | edited


def _entropy_bounded(block: PlainBlock, guesses: list[Guess], parameters: dict[str, Any]) -> set[int]:
    chosen: set[int] = set()
    spent = 0.0
    for place in sorted(_masked(block), key=lambda p: guesses[p].entropy):
        if spent > parameters.get("entropy_bound", 0.5):
            break
        chosen.add(place)
        spent += guesses[place].entropy
    return chosen


def _hierarchical(block: PlainBlock, guesses: list[Guess], parameters: dict[str, Any]) -> set[int]:
    chosen: set[int] = set()
    for span in _spans(block):
        sure = {p for p in span if guesses[p].probability > parameters.get("threshold", 0.9)}
        best = max(span, key=lambda p: (guesses[p].probability, -p))
        if not sure and guesses[best].probability > parameters.get("low_threshold", 0.6):
            sure = {best}
        chosen |= sure
    return _or_best(block, guesses, chosen)


def _credit(block: PlainBlock, guesses: list[Guess], parameters: dict[str, Any]) -> set[int]:
    credits: list[list[list[float]]] = block.memory.setdefault(
        "credits", [[[-1, 0.0] for _ in range(4)] for _ in block.ids]
    )
    weight, decay = parameters.get("credit_weight", 0.65), parameters.get("credit_decay", 0.7)
    for place, guess in enumerate(guesses):
        slots = credits[place]
        for slot in slots:
            slot[1] *= decay
        own = next((slot for slot in slots if slot[0] == guess.token), None)
        if own is None:
            own = min(slots, key=lambda slot: slot[1])
            own[:] = [guess.token, 0.0]
        own[1] += guess.probability**0.5
        enhanced = guess.logits.double().clone()
        for token, credit in slots:
            if token >= 0:
                enhanced[int(token)] += weight * math.log1p(credit)
        best = max((slot for slot in slots if slot[0] >= 0), key=lambda slot: float(enhanced[int(slot[0])]))
        probability = float(enhanced.softmax(0)[int(best[0])])
        guesses[place] = Guess(int(best[0]), probability, guess.entropy, guess.logits)
    return _low_confidence(block, guesses, {"threshold": parameters.get("threshold", 0.95)})


def _masked(block: PlainBlock) -> list[int]:
    return [place for place, masked in enumerate(block.masked) if masked]


def _spans(block: PlainBlock) -> list[list[int]]:
    spans: list[list[int]] = []
    for place in _masked(block):
        if spans and spans[-1][-1] == place - 1:
            spans[-1].append(place)
        else:
            spans.append([place])
    return spans


def _or_best(block: PlainBlock, guesses: list[Guess], chosen: set[int]) -> set[int]:
    masked = _masked(block)
    if chosen or not masked:
        return chosen
    return {max(masked, key=lambda p: (guesses[p].probability, -p))}


_ALGORITHMS: dict[str, Callable[[PlainBlock, list[Guess], dict[str, Any]], set[int]]] = {
    "LowConfidence": _low_confidence,
    "JointThreshold": _joint_threshold,
    "EntropyBounded": _entropy_bounded,
    "Hierarchical": _hierarchical,
    "Credit": _credit,
}
