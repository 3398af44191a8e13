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
    values = torch.fmax(values, torch.tensor(LEAST, device=values.device))  # NaN gives way
    maximum = values.amax(dim=1).clamp(min=LEAST)
    below = values - maximum[:, None]
    weights = below.exp()
    total = weights.sum(dim=1)
    moment = torch.linalg.vecdot(weights, below)

    mask = mask_id - vocab_start
    if 0 <= mask < values.shape[1]:
        values[:, mask] = LEFT_OUT
    scores = values
    if draw is not None:
        rows = draw.temperature.nonzero().squeeze(1)
        ids = vocab_start + torch.arange(values.shape[1], device=values.device)
        drawn = _scaled(values[rows], draw.temperature[rows], draw.floor[rows])
        scores = values.index_copy(0, rows, drawn + noise.gumbel(draw.seed[rows], ids))
    token = scores.argmax(dim=1, keepdim=True)
    logit = values.gather(1, token).squeeze(1)
    log_total = total.log()
    evidence = Evidence(
        token=token.squeeze(1) + vocab_start,
        probability=(logit - maximum).exp() / total,
        entropy=log_total - moment / total,
        logit=logit,
        normalizer=maximum + log_total,
    )
    return evidence, scores.gather(1, token).squeeze(1)


def _penalise(values: Tensor, tokens: Tensor, penalty: Tensor) -> Tensor:
    here = (tokens >= 0) & (tokens < values.shape[1])
    column = torch.where(here, tokens, 0)[:, None]
    return values.scatter_add(1, column, torch.where(here, -penalty, 0.0)[:, None])


def _scaled(values: Tensor, temperature: Tensor, floor: Tensor) -> Tensor:
    scaled = values / temperature.clamp(min=LEAST_TEMPERATURE)[:, None]
    allowed = (values > LEFT_OUT) & (values >= floor[:, None])
    return torch.where(allowed, scaled.clamp(min=LEAST), LEFT_OUT)
