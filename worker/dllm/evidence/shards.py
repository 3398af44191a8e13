"""Evidence of a vocabulary that is spread over several GPUs, of which each holds some columns."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from worker.dllm.evidence import read_part
from worker.dllm.evidence.values import Draw, Evidence


def read(
    logits: Tensor,
    vocab_start: int,
    gather: Callable[[Tensor], Tensor],
    *,
    mask_id: int,
    penalised: Tensor | None = None,
    penalty: Tensor | None = None,
    draw: Draw | None = None,
) -> Evidence:
    """As `worker.dllm.evidence.read`, with the same result on every GPU: 24 bytes a row travel, no logits.

    Args:
        logits: [R, V of this shard], without padding.
        vocab_start: the token of its first column.
        gather: gives a tensor of every shard, stacked [shards, ...] in the same order everywhere.
    """
    evidence, score = read_part(
        logits, mask_id=mask_id, penalised=penalised, penalty=penalty, draw=draw, vocab_start=vocab_start
    )
    numbers = torch.stack([score, evidence.logit, evidence.normalizer, evidence.entropy])
    return merge(gather(evidence.token), gather(numbers))


def merge(tokens: Tensor, numbers: Tensor) -> Evidence:
    """Of all shards. tokens: int64 [shards, R]; numbers: [shards, 4, R] as `read` stacks them."""
    scores, logits, normalizers, entropies = numbers.unbind(dim=1)
    best = scores.amax(dim=0)
    # Among equal scores the lowest id, wherever its shard stands.
    candidates = torch.where(scores == best, tokens, torch.iinfo(torch.int64).max)
    winner = candidates.argmin(dim=0, keepdim=True)
    token = tokens.gather(0, winner).squeeze(0)
    logit = logits.gather(0, winner).squeeze(0)
    normalizer = normalizers.logsumexp(dim=0)
    log_share = normalizers - normalizer
    # The chain rule of entropy: within the shards, and of which shard it is.
    terms = torch.where(log_share > -torch.inf, log_share.exp() * (entropies - log_share), 0.0)
    return Evidence(
        token=token,
        probability=(logit - normalizer).exp(),
        entropy=terms.sum(dim=0),
        logit=logit,
        normalizer=normalizer,
    )
