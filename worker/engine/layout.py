"""Which GPUs of a machine each of its engines gets."""

from __future__ import annotations

import os
from collections.abc import Sequence

from worker.engine.hardware import Hardware


def shares(sizes: Sequence[int], gpus: int) -> list[list[range]]:
    """The GPUs of each engine: of every model one, then of every model another, for as long as any fits.

    Those of more GPUs are placed first, so that each has GPUs that are near each other.

    Args:
        sizes: GPUs of one engine, by model.
        gpus: of the machine.

    Returns:
        By model, the numbers of the GPUs of each of its engines; of a model for which there is no room, none.
    """
    found: list[list[range]] = [[] for _ in sizes]
    order = sorted(range(len(sizes)), key=lambda model: -sizes[model])
    first, fits = 0, True
    while fits:
        fits = False
        for model in order:
            end = first + sizes[model]
            if end <= gpus:
                found[model].append(range(first, end))
                first, fits = end, True
    return found


def visible(hardware: Hardware, gpus: Sequence[int]) -> dict[str, str]:
    """What a process has to have in its environment to see some of the GPUs that this one sees.

    Args:
        hardware: as this process sees it.
        gpus: their numbers in it.
    """
    entries = _cuda_entries(hardware) if hardware.vendor == "nvidia" else _listed(_HIP, hardware)
    variable = _CUDA if hardware.vendor == "nvidia" else _HIP
    return {variable: ",".join(entries[gpu] for gpu in gpus)}


# HIP counts among the GPUs that ROCR_VISIBLE_DEVICES leaves, which every process inherits as it is.
_CUDA, _HIP = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"


def _cuda_entries(hardware: Hardware) -> list[str]:
    """UUIDs, because CUDA does not have to number GPUs as the driver's library does."""
    if all(gpu.uuid for gpu in hardware.gpus):
        return [gpu.uuid for gpu in hardware.gpus]
    return _listed(_CUDA, hardware)


def _listed(variable: str, hardware: Hardware) -> list[str]:
    given = os.environ.get(variable)
    if given is None:
        return [str(number) for number in range(len(hardware.gpus))]
    return [entry.strip() for entry in given.split(",")]
