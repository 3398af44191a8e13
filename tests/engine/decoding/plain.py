"""The decoding algorithms again, one position after the other, in the plainest Python.

What `worker.dllm` decodes has to equal this token for token. Nothing is shared with it but the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch
from torch import Tensor

from dllm_stack.decoding import Decision, EngineOptions, Sampling
from tests.engine.reference import Reference
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


class PlainDecoder:
    """Decodes block by block, never stopping at an end token, and remembers each block: it is slow."""

    def __init__(self, model: Reference) -> None:
        self._logits: Logits = model.logits
        self._size, self._mask_id = model.config["block_size"], model.config["mask_token_id"]
        self._decoded: dict[bytes, list[PlainAnswer]] = {}

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def answer(self, prompt: list[int], options: EngineOptions, tokens: int) -> PlainAnswer:
        blocks = self._decoded.setdefault(msgspec.json.encode((prompt, options)), [])
        answer: list[int] = []
        taken = 0
        while len(answer) < tokens:
            if taken == len(blocks):
                blocks.append(self._block(prompt + answer, options))
            answer += blocks[taken].token_ids
            taken += 1
        used = blocks[:taken]
        return PlainAnswer(
            answer[:tokens],
            sum(block.forwards for block in used),
            sum(block.steps for block in used),
            sum(block.edits for block in used),
        )

    def _block(self, sequence: list[int], options: EngineOptions) -> PlainAnswer:
        decision, sampling = options.decision, options.sampling
        assert decision is not None
        start = len(sequence) // self._size * self._size
        known = sequence[start:]
        fixed = [place < len(known) for place in range(self._size)]
        ids = known + [self._mask_id] * (self._size - len(known))
        block = PlainBlock(ids, [not was for was in fixed], fixed)
        limit = decision.parameters.get("max_steps", math.inf)
        done, taken, steps, edits = False, 0, 0, 0
        while not done:
            logits = self._logits(sequence[:start] + block.ids)
            guesses = _look(logits, block, decision, sampling, start, self._mask_id)
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
        return PlainAnswer(block.ids[len(known) :], taken, steps, edits)


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
