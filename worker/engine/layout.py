"""Which GPUs of a machine each of its engines gets."""

from __future__ import annotations

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


def visible(hardware: Hardware, gpus: Sequence[int] | None = None) -> dict[str, str]:
    """What a process has to have in its environment to see some of the GPUs that this one sees.

    Numbers and not UUIDs, which SGLang cannot read: an engine of several GPUs would go on without its fast
    all-reduce. CUDA is told to number GPUs as the driver's library does. Slices have no number of their own.

    Args:
        hardware: as this process sees it.
        gpus: their places in it; None: all.
    """
    chosen = hardware.gpus if gpus is None else [hardware.gpus[place] for place in gpus]
    entries = ",".join(gpu.uuid if gpu.is_slice else str(gpu.number) for gpu in chosen)
    if hardware.vendor == "nvidia":
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": entries}
    return {"HIP_VISIBLE_DEVICES": entries}
