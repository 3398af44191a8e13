"""What a denoise step tells the host, on its way while the device goes on."""

from __future__ import annotations

import torch
from torch import Tensor


class Report:
    """A copy of an integer tensor in the host's memory. Nothing waits before it is read."""

    def __init__(self, numbers: Tensor) -> None:
        """
        Args:
            numbers: [B, n], on any device.
        """
        self._event: torch.cuda.Event | None = None
        if numbers.is_cuda:
            self._host = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
            self._host.copy_(numbers, non_blocking=True)
            self._event = torch.cuda.Event()
            self._event.record()
        else:
            self._host = numbers

    def read(self, columns: slice) -> list[list[int]]:
        """Waits until the step is done."""
        if self._event is not None:
            self._event.synchronize()
        numbers: list[list[int]] = self._host[:, columns].tolist()
        return numbers


def send(values: object, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Numbers of the host as a tensor on the device. Nothing waits."""
    tensor = torch.tensor(values, dtype=dtype)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
