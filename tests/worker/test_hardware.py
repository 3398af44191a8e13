"""What GPUs are counted. Drivers and sysfs of other machines are fakes here."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from worker.engine import hardware
from worker.engine.hardware import Gpu

GPUS = [Gpu(f"NVIDIA H100 {i}", 80, uuid=f"GPU-{i}aaa-bbb", number=i) for i in range(4)]
MI300X_BYTES = 196592 << 20


def fake_sysfs(root: Path, *, product_name: bool = True, device_nodes: int = 2) -> Path:
    """Two MI300X and a NIC's neighbour of another vendor, as Linux lays them out."""
    for index, vendor in enumerate(["0x1002", "0x1002", "0x10de"]):
        device = root / f"sys/devices/pci0000:00/0000:{index}1:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "mem_info_vram_total").write_text(f"{MI300X_BYTES}\n")
        (device / "unique_id").write_text(f"{index}f{index}f\n")
        if product_name:
            (device / "product_name").write_text("AMD Instinct MI300X OAM\n")
        node = root / f"sys/class/drm/renderD{128 + index}"
        node.mkdir(parents=True)
        (node / "device").symlink_to(device)
    (root / "dev/dri").mkdir(parents=True)
    for index in range(device_nodes):
        (root / f"dev/dri/renderD{128 + index}").touch()
    return root


def test_amd_gpus_of_sysfs(tmp_path: Path) -> None:
    assert hardware.amd_gpus(fake_sysfs(tmp_path)) == [
        Gpu("AMD Instinct MI300X OAM", MI300X_BYTES, "GPU-0f0f"),
        Gpu("AMD Instinct MI300X OAM", MI300X_BYTES, "GPU-1f1f", number=1),
    ]


def test_amd_gpus_that_a_container_was_not_given(tmp_path: Path) -> None:
    (gpu,) = hardware.amd_gpus(fake_sysfs(tmp_path, device_nodes=1))
    assert gpu.uuid == "GPU-0f0f"


def test_amd_smi_names_what_sysfs_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        {"gpu": i, "bus": {"bdf": f"0000:{i}1:00.0"}, "asic": {"market_name": "AMD Instinct MI300X VF"}}
        for i in range(2)
    ]
    fake = tmp_path / "bin/amd-smi"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(names)}\nEND\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    gpus = hardware.amd_gpus(fake_sysfs(tmp_path, product_name=False))
    assert [gpu.name for gpu in gpus] == ["AMD Instinct MI300X VF"] * 2


def test_amd_gpus_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    gpus = hardware.amd_gpus(fake_sysfs(tmp_path, product_name=False))
    assert [(gpu.name, gpu.memory_bytes) for gpu in gpus] == [("", MI300X_BYTES)] * 2


@pytest.mark.parametrize("wrap", [lambda gpus: gpus, lambda gpus: {"gpu_data": gpus}], ids=["list", "object"])
def test_both_shapes_of_amd_smis_answer(wrap: object) -> None:
    assert callable(wrap)
    gpus = [{"gpu": 0, "bus": {"bdf": "0000:0c:00.0"}, "asic": {"market_name": "AMD Instinct MI355X"}}]
    assert hardware.parse_amd_smi(json.dumps(wrap(gpus)).encode()) == {"0000:0c:00.0": "AMD Instinct MI355X"}


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("2", [2]),
        ("3, 1", [3, 1]),
        ("GPU-2aaa", [2]),
        ("0,9,1", [0]),
        ("-1", []),
        ("1,2,1", []),
        ("1,GPU-1aaa", []),
        ("NoDevFiles", []),
    ],
)
def test_visible_devices(monkeypatch: pytest.MonkeyPatch, value: str | None, indices: list[int]) -> None:
    if value is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    assert hardware.visible(GPUS, "CUDA_VISIBLE_DEVICES") == [GPUS[i] for i in indices]


class FakeNvml:
    """Three GPUs as NVIDIA's library tells of them: the first is too old for slices, the second has room for
    three and has two, the third is lost."""

    class NVMLError(Exception):
        pass

    NVML_DEVICE_MIG_ENABLE = 1

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return 3

    def nvmlDeviceGetHandleByIndex(self, number: int) -> str:
        if number == 2:
            raise self.NVMLError("GPU is lost")
        return f"GPU-{number}"

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:
        if handle == "GPU-0":
            raise self.NVMLError("Not Supported")
        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:
        return 3

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, number: int) -> str:
        if number == 1:
            raise self.NVMLError("Not Found")
        return f"MIG-{number}"

    def nvmlDeviceGetUUID(self, device: str) -> str:
        return device

    def nvmlDeviceGetName(self, handle: str) -> str:
        return f"NVIDIA H200 {handle}"

    def nvmlDeviceGetMemoryInfo(self, device: str) -> SimpleNamespace:
        return SimpleNamespace(total=140 if device.startswith("GPU") else 70)


def test_a_gpu_in_mig_mode_is_its_slices_and_a_lost_one_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    assert hardware.nvidia_gpus() == [
        Gpu("NVIDIA H200 GPU-0", 140, "GPU-0", 0),
        Gpu("NVIDIA H200 GPU-1", 70, "MIG-0", 1, is_slice=True),
        Gpu("NVIDIA H200 GPU-1", 70, "MIG-2", 1, is_slice=True),
    ]


@pytest.mark.skipif(bool(hardware.nvidia_gpus() or hardware.amd_gpus()), reason="this machine has a GPU")
def test_a_machine_without_a_gpu() -> None:
    assert hardware.detect() == hardware.Hardware("cpu", ())
