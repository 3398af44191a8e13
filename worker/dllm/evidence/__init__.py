"""The one read of a step's logits: of each position its token and how sure the model is of it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from worker.dllm.evidence import torch_path
from worker.dllm.evidence.values import Draw, Evidence

__all__ = ["Draw", "Evidence", "read"]


def read(
    logits: Tensor,
    *,
    mask_id: int,
    penalised: Tensor | None = None,
    penalty: Tensor | None = None,
    draw: Draw | None = None,
) -> Evidence:
    """Reads each row of logits once; a row's evidence does not depend on the other rows.

    Args:
        logits: [R, V], float32, bfloat16 or float16; the columns must be contiguous. Not changed.
        mask_id: never the token; its logit counts in the probabilities.
        penalised: int64 [R], the token whose logit is lowered; -1: none.
        penalty: float32 [R], by how much.
        draw: which rows are sampled and how; none: the most probable tokens.
    """
    path: Callable[..., tuple[Evidence, Tensor]] = torch_path.read
    if logits.is_cuda:
        from worker.dllm.evidence import triton_path  # needs Triton, which a CPU has no use for

        path = triton_path.read
    evidence, _ = path(logits, mask_id=mask_id, penalised=penalised, penalty=penalty, draw=draw)
    return evidence
