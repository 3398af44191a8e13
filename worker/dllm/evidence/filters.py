"""Which tokens a row may draw: top_k, then top_p of what that left, as LLaDA2's own generation does."""

from __future__ import annotations

import torch
from torch import Tensor

from worker.dllm.evidence.values import LEAST, LEAST_TEMPERATURE, LEFT_OUT

_ROWS_AT_ONCE = 256
"""Sorting takes about 20 bytes a logit: 0.8 GB for these rows of LLaDA2's 157,184."""


def floor(
    logits: Tensor, temperature: Tensor, top_p: Tensor, top_k: Tensor, *, mask_id: int, rows: Tensor
) -> Tensor:
    """The least logit that each row may draw, float32 [R]; -inf for the rows that do not ask.

    Tokens with the same logit as the last one kept are kept as well.

    Args:
        logits: [R, V].
        temperature: float32 [R], above 0 in the rows that ask.
        top_p: float32 [R]; the tokens kept are the fewest that together are as probable. 1: all.
        top_k: int64 [R]; 0: all.
        mask_id: not a token to draw, so it counts for neither.
        rows: int64, the rows that ask.
    """
    floors = torch.full((logits.shape[0],), -torch.inf, device=logits.device)
    for part in rows.split(_ROWS_AT_ONCE):
        values = logits[part].float()
        values = torch.where(values > LEAST, values, LEAST)
        values[:, mask_id] = LEFT_OUT
        ordered = values.sort(dim=1, descending=True).values
        tokens = ordered.shape[1] - 1
        most = torch.where(top_k[part] > 0, top_k[part], tokens).clamp(max=tokens)
        least = ordered.gather(1, most[:, None] - 1)
        scaled = ordered / temperature[part, None].clamp(min=LEAST_TEMPERATURE)
        probability = torch.where(ordered >= least, scaled, -torch.inf).softmax(dim=1)
        before = probability.cumsum(dim=1) - probability
        # In float32 the least top_p is 0, and the first token is kept all the same; rounding may take the sum
        # of all to 1 before the last of them.
        share = top_p[part, None].clamp(min=torch.finfo(torch.float32).tiny)
        nucleus = (before < share) | (share >= 1)
        kept = nucleus & (ordered >= least)
        floors[part] = torch.where(kept, ordered, torch.inf).amin(dim=1)
    return floors
