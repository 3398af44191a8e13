"""How the rows that sample draw their tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from worker.dllm.evidence import Draw
from worker.dllm.evidence.filters import floor
from worker.dllm.evidence.noise import position_seeds
from worker.dllm.report import send
from worker.dllm.requests import BlockState


class Drawing:
    """The draws of a batch. A token depends on its request's seed, its position and its logits, on nothing
    else: neither on what is beside it, nor on the step.
    """

    def __init__(self, states: Sequence[BlockState], length: int, mask_id: int, device: torch.device) -> None:
        sampling = [state.sampling for state in states]
        numbers = send([[s.temperature, s.top_p] for s in sampling], torch.float32, device)
        self._mask_id = mask_id
        self._temperature, self._top_p = numbers.repeat_interleave(length, dim=0).T.contiguous()
        self._top_k = send([s.top_k for s in sampling], torch.int64, device).repeat_interleave(length)
        starts = send([[state.start] for state in states], torch.int64, device)
        seeds = send([s.seed for s in sampling], torch.int64, device)
        self._seeds = position_seeds(seeds, starts + torch.arange(length, device=device))
        filtered = [row for row, s in enumerate(sampling) if s.temperature and (s.top_p < 1 or s.top_k)]
        rows = [row * length + place for row in filtered for place in range(length)]
        self._filtered = send(rows, torch.int64, device) if rows else None
        self._floor = torch.full_like(self._temperature, float("-inf"))

    def of(self, logits: Tensor) -> Draw:
        """
        Args:
            logits: [B x L, V].
        """
        least = self._floor
        if self._filtered is not None:
            least = floor(
                logits,
                self._temperature,
                self._top_p,
                self._top_k,
                mask_id=self._mask_id,
                rows=self._filtered,
            )
        return Draw(self._temperature, least, self._seeds)
