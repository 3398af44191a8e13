"""The read of the logits in plain torch: for the CPU, and what the GPU's kernel is compared with."""

from __future__ import annotations

import torch
from torch import Tensor

from worker.dllm.evidence import noise
from worker.dllm.evidence.values import LEAST, LEAST_TEMPERATURE, LEFT_OUT, Draw, Evidence


def read(
    logits: Tensor,
    *,
    mask_id: int,
    penalised: Tensor | None = None,
    penalty: Tensor | None = None,
    draw: Draw | None = None,
    vocab_start: int = 0,
) -> tuple[Evidence, Tensor]:
    """As `worker.dllm.evidence.read`, of the tokens from `vocab_start` on.

    Returns:
        The evidence, and the score [R] that tokens of other shards must beat: the logit, or of a drawn
        token its logit with noise.
    """
    values = logits.float()
    if penalised is not None and penalty is not None:
        values = _penalise(values, penalised - vocab_start, penalty)
    values = torch.where(values > LEAST, values, LEAST)
    candidates = values
    if 0 <= mask_id - vocab_start < values.shape[1]:
        candidates = values.clone()
        candidates[:, mask_id - vocab_start] = LEFT_OUT
    scores = candidates
    if draw is not None:
        rows = draw.temperature.nonzero().squeeze(1)
        drawn = _scaled(candidates[rows], draw.temperature[rows], draw.floor[rows])
        ids = vocab_start + torch.arange(values.shape[1], device=values.device)
        values = values.index_copy(0, rows, drawn)
        scores = scores.index_copy(0, rows, drawn + noise.gumbel(draw.seed[rows], ids))
    token = scores.argmax(dim=1, keepdim=True)
    return _describe(values, token, vocab_start), scores.gather(1, token).squeeze(1)


def _penalise(values: Tensor, tokens: Tensor, penalty: Tensor) -> Tensor:
    here = (tokens >= 0) & (tokens < values.shape[1])
    column = torch.where(here, tokens, 0)[:, None]
    return values.scatter_add(1, column, torch.where(here, -penalty, 0.0)[:, None])


def _scaled(candidates: Tensor, temperature: Tensor, floor: Tensor) -> Tensor:
    allowed = (candidates > LEFT_OUT) & (candidates >= floor[:, None])
    scaled = candidates / temperature.clamp(min=LEAST_TEMPERATURE)[:, None]
    return torch.where(allowed, scaled.clamp(min=LEAST), LEFT_OUT)


def _describe(values: Tensor, token: Tensor, vocab_start: int) -> Evidence:
    maximum = values.amax(dim=1, keepdim=True).clamp(min=LEAST)
    below = values - maximum
    weights = below.exp()
    total = weights.sum(dim=1)
    logit = values.gather(1, token).squeeze(1)
    log_total = total.log()
    something = total > 0  # a shard may hold nothing that a draw allows
    entropy = log_total - (weights * below).sum(dim=1) / total
    return Evidence(
        token=token.squeeze(1) + vocab_start,
        probability=torch.where(something, (logit - maximum.squeeze(1)).exp() / total, 0.0),
        entropy=torch.where(something, entropy, 0.0),
        logit=logit,
        normalizer=maximum.squeeze(1) + log_total,
    )
