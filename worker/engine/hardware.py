"""The GPUs that an engine started here would see."""

from __future__ import annotations

import importlib
import json
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

_log = logging.getLogger(__name__)

_AMD_PCI_VENDOR = "0x1002"
_AMD_SMI_TIMEOUT_S = 20.0


class Gpu(NamedTuple):
    name: str  # as the driver reports it; "" when it does not
    memory_bytes: int
    uuid: str  # as the vendor's VISIBLE_DEVICES variable takes it; "" when unknown
    number: int = 0  # as that variable counts
    is_slice: bool = False  # of an NVIDIA GPU in MIG mode, whose number it has


class Hardware(NamedTuple):
    vendor: Literal["nvidia", "amd", "cpu"]
    gpus: tuple[Gpu, ...] = ()


def detect() -> Hardware:
    """NVIDIA through NVML, AMD through sysfs; neither: a CPU. VISIBLE_DEVICES variables are honoured."""
    if nvidia := visible(nvidia_gpus(), "CUDA_VISIBLE_DEVICES"):
        return Hardware("nvidia", tuple(nvidia))
    # HIP counts among those that ROCR_VISIBLE_DEVICES leaves, and knows CUDA's variable by that name too.
    left = enumerate(visible(amd_gpus(), "ROCR_VISIBLE_DEVICES"))
    of_hip = "HIP_VISIBLE_DEVICES" if "HIP_VISIBLE_DEVICES" in os.environ else "CUDA_VISIBLE_DEVICES"
    amd = visible([gpu._replace(number=number) for number, gpu in left], of_hip)
    return Hardware("amd", tuple(amd)) if amd else Hardware("cpu")


def visible(gpus: Sequence[Gpu], variable: str) -> list[Gpu]:
    """Those that an environment variable lets through, in its order.

    As in CUDA, entries are numbers or the beginning of a UUID, the list ends at the first that fits no GPU,
    and one that names a GPU twice names none. The number of a GPU in MIG mode is its first slice's.
    """
    value = os.environ.get(variable)
    if value is None:
        return list(gpus)
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in value.split(",")):
        by_number = [gpu for gpu in gpus if entry.isdigit() and gpu.number == int(entry)][:1]
        by_uuid = [gpu for gpu in gpus if entry and gpu.uuid.startswith(entry)]
        match [*by_number, *by_uuid]:
            case [gpu] if gpu in chosen:
                return []
            case [gpu]:
                chosen.append(gpu)
            case _:
                break
    return chosen


def nvidia_gpus() -> list[Gpu]:
    """In NVML's order; a GPU in MIG mode as its slices."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return []
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        absent = (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded)
        if not isinstance(error, absent):
            _log.warning("NVIDIA's driver does not answer, so no GPU is counted: %s", error)
        return []
    try:
        return [gpu for number in range(nvml.nvmlDeviceGetCount()) for gpu in _nvidia_gpu(nvml, number)]
    finally:
        nvml.nvmlShutdown()


def _nvidia_gpu(nvml: Any, number: int) -> list[Gpu]:
    """One, or its slices; none, if it does not answer: the others can still be used."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
        sliced = _is_sliced(nvml, handle)
        return [
            Gpu(
                name=nvml.nvmlDeviceGetName(handle),
                memory_bytes=nvml.nvmlDeviceGetMemoryInfo(device).total,
                uuid=nvml.nvmlDeviceGetUUID(device),
                number=number,
                is_slice=sliced,
            )
            for device in (_slices(nvml, handle) if sliced else [handle])
        ]
    except nvml.NVMLError as error:
        _log.warning("GPU %d does not answer, so it is not counted: %s", number, error)
        return []


def _is_sliced(nvml: Any, handle: Any) -> bool:
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError:  # most GPUs have no such mode
        return False
    return bool(current == nvml.NVML_DEVICE_MIG_ENABLE)


def _slices(nvml: Any, handle: Any) -> Iterator[Any]:
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except nvml.NVMLError:  # there are fewer than there could be
            continue


def amd_gpus(root: Path = Path("/")) -> list[Gpu]:
    """Those of sysfs whose device node exists: in a container sysfs shows all GPUs of the host.

    Args:
        root: where /sys and /dev are.
    """
    devices = {
        node.resolve().name: node
        for node in sorted((root / "sys/class/drm").glob("renderD*/device"))
        if _text(node / "vendor") == _AMD_PCI_VENDOR and (root / "dev/dri" / node.parent.name).exists()
    }
    if not devices:
        return []
    names = {} if all(_text(node / "product_name") for node in devices.values()) else _amd_smi_names()
    return [
        Gpu(
            name=_text(node / "product_name") or names.get(address, ""),
            memory_bytes=int(_text(node / "mem_info_vram_total") or 0),
            uuid=f"GPU-{serial}" if (serial := _text(node / "unique_id")) else "",
            number=number,
        )
        for number, (address, node) in enumerate(devices.items())
    ]


def _amd_smi_names() -> dict[str, str]:
    """Name by PCI address. Virtual functions have no product_name in sysfs."""
    program = shutil.which("amd-smi")
    if program is None:
        return {}
    command = [program, "static", "--asic", "--bus", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_AMD_SMI_TIMEOUT_S, check=True)
        return parse_amd_smi(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        _log.warning("amd-smi does not answer, so the GPUs' names are unknown: %s", error)
        return {}


def parse_amd_smi(output: bytes) -> dict[str, str]:
    """Name by PCI address, from a list of GPUs or, since ROCm 7, an object around it."""
    found: Any = json.loads(output)
    if isinstance(found, dict):
        found = found["gpu_data"]
    return {gpu["bus"]["bdf"]: gpu["asic"]["market_name"] for gpu in found}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
