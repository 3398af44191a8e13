"""Stand-in for SGLang's compiled kernels, which cannot be installed on a machine without their accelerator.

It lies last on the engine's path, so a real `sgl_kernel` wins. It holds the one function that SGLang's
scheduler calls on a CPU; every other name is a stub that says so when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import torch


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    row_length: int,
) -> None:
    """Notes in each request's row which KV slots hold its tokens [start, end).

    Args:
        req_pool_indices: [requests], each request's row.
        req_to_token: [rows, row_length], written in place.
        start_offset: [requests].
        end_offset: [requests].
        out_cache_loc: the requests' new slots, one request after the other.
        row_length: columns of `req_to_token`.
    """
    taken = 0
    spans = zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True)
    for row, start, end in spans:
        req_to_token[row, start:end] = out_cache_loc[taken : taken + end - start]
        taken += end - start


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name.startswith("__"):
        raise AttributeError(name)

    def stub(*_: object, **__: object) -> NoReturn:
        raise NotImplementedError(f"sgl_kernel.{name} has no CPU build")

    return stub
