"""The read of the logits on a GPU: one kernel over all of them, a second one over what it found.

The first splits each row of the vocabulary into chunks of a fixed size, one program each, so that a few
rows fill the GPU as well and a row's result is the same whatever stands beside it. Each thread loads
groups of 16 bytes and keeps a running maximum, sum of exponentials and their mean for its groups; of the
best token it notes the group only. The mask and the penalised token are left out there. The second kernel
adds them, and looks the token up in its group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton  # type: ignore[import-untyped]
from torch import Tensor

from worker.dllm.evidence import kernels
from worker.dllm.evidence.values import Draw, Evidence

_LOAD_BYTES = 16  # the widest load of a thread


@dataclass(frozen=True)
class Shape:
    """How the first kernel divides a row."""

    chunk: int  # logits of a program; a multiple of the tile
    tile: int  # of them, loaded at once; a power of 2
    warps: int


SHAPES = {4: Shape(chunk=8192, tile=2048, warps=4), 2: Shape(chunk=16384, tile=2048, warps=4)}
"""By the bytes of a logit: the best compromise of 32, 1024 and 3200 rows on an H200 (`loadtest.kernel`). A
change of the chunk changes the last bits of the sums, and nothing else."""


def read(
    logits: Tensor,
    *,
    mask_id: int,
    penalised: Tensor | None = None,
    penalty: Tensor | None = None,
    draw: Draw | None = None,
    vocab_start: int = 0,
    shape: Shape | None = None,
) -> tuple[Evidence, Tensor]:
    """As `torch_path.read`, on the GPU of `logits`.

    Raises:
        ValueError: the columns of `logits` are not contiguous.
    """
    if logits.stride(1) != 1:
        raise ValueError(f"the columns of the logits must be contiguous, their stride is {logits.stride(1)}")
    rows, vocabulary = logits.shape
    shape = shape or SHAPES[logits.element_size()]
    group = _LOAD_BYTES // logits.element_size()
    chunks = triton.cdiv(vocabulary, shape.chunk)
    found = torch.empty((4, chunks, rows), dtype=torch.float32, device=logits.device)
    found_at = torch.empty((chunks, rows), dtype=torch.int32, device=logits.device)
    token = torch.empty(rows, dtype=torch.int64, device=logits.device)
    numbers = torch.empty((5, rows), dtype=torch.float32, device=logits.device)
    common: dict[str, Any] = {
        "logits": logits,
        "row_stride": logits.stride(0),
        "found": found,
        "found_at": found_at,
        "penalised": penalised,
        "temperatures": draw.temperature if draw else None,
        "floors": draw.floor if draw else None,
        "seeds": draw.seed if draw else None,
        "rows": rows,
        "vocabulary": vocabulary,
        "vocab_start": vocab_start,
        "mask_id": mask_id - vocab_start,
        "GROUP": group,
        "enable_fp_fusion": True,  # Triton's default differs between versions
    }
    if rows:
        kernels.find[(chunks, rows)](
            **common,
            CHUNK=shape.chunk,
            LANES=shape.tile // group,
            DRAWN_LANES=min(shape.tile // group, 32 * shape.warps),
            num_warps=shape.warps,
        )
        kernels.conclude[(rows,)](
            **common,
            penalty=penalty,
            token=token,
            numbers=numbers,
            chunks=chunks,
            CHUNKS=triton.next_power_of_2(chunks),
            num_warps=1,
        )
    probability, entropy, logit, normalizer, score = numbers.unbind()
    return Evidence(token, probability, entropy, logit, normalizer), score
