"""GPUs handed out to the workers of one machine. No machine here has several: they are only counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine import hardware, layout
from worker.engine.hardware import Gpu, Hardware

GIB = 2**30
H200S = Hardware("nvidia", tuple(Gpu("NVIDIA H200", 140 * GIB, f"GPU-{i}aaa", i) for i in range(8)))
MI300XS = Hardware("amd", tuple(Gpu("AMD Instinct MI300X", 192 * GIB, f"GPU-{i}f", i) for i in range(8)))
# The second one is in MIG mode.
SLICED = Hardware(
    "nvidia",
    (
        H200S.gpus[0],
        *(Gpu("NVIDIA H200", 69 * GIB, f"MIG-{i}bbb", 1, is_slice=True) for i in range(2)),
        H200S.gpus[2],
    ),
)


@pytest.mark.parametrize(
    ("sizes", "gpus", "expected"),
    [
        ([4], 8, [["0-3", "4-7"]]),
        ([1], 3, [["0-0", "1-1", "2-2"]]),
        ([4], 7, [["0-3"]]),
        ([1, 4], 8, [["4-4", "5-5", "6-6", "7-7"], ["0-3"]]),
        ([2, 2], 8, [["0-1", "4-5"], ["2-3", "6-7"]]),
        ([4, 8], 8, [[], ["0-7"]]),
        ([2], 0, [[]]),
    ],
)
def test_shares(sizes: list[int], gpus: int, expected: list[list[str]]) -> None:
    shares = layout.shares(sizes, gpus)
    assert [[f"{share[0]}-{share[-1]}" for share in its] for its in shares] == expected


@given(st.lists(st.integers(1, 8), min_size=1, max_size=4), st.integers(0, 16))
def test_no_gpu_is_given_twice_and_none_left_that_a_model_could_use(sizes: list[int], gpus: int) -> None:
    shares = layout.shares(sizes, gpus)
    given_out = [gpu for its in shares for share in its for gpu in share]
    assert len(given_out) == len(set(given_out))
    assert set(given_out) <= set(range(gpus))
    assert all(len(share) == size for its, size in zip(shares, sizes, strict=True) for share in its)
    assert gpus - len(given_out) < min(sizes)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
    ):
        monkeypatch.delenv(variable, raising=False)


def seen(monkeypatch: pytest.MonkeyPatch, found: Hardware) -> Hardware:
    """As `detect` sees a machine's GPUs with the variables that are set."""
    monkeypatch.setattr(hardware, "nvidia_gpus", lambda: list(found.gpus) if found.vendor == "nvidia" else [])
    monkeypatch.setattr(hardware, "amd_gpus", lambda: list(found.gpus) if found.vendor == "amd" else [])
    return hardware.detect()


def cuda(entries: str) -> dict[str, str]:
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": entries}


@pytest.mark.parametrize("given", ["6,4", "GPU-6aaa,GPU-4aaa", "GPU-6, 4"])
def test_cuda_by_number_however_they_were_given(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """SGLang reads the variable as numbers."""
    assert layout.visible(H200S, [2, 3]) == cuda("2,3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    some = seen(monkeypatch, H200S)
    assert layout.visible(some) == cuda("6,4")
    assert layout.visible(some, [1]) == cuda("4")


@pytest.mark.parametrize(
    ("given", "left"),
    [(None, "0,MIG-0bbb,MIG-1bbb,2"), ("1", "MIG-0bbb"), ("MIG-1", "MIG-1bbb"), ("2,0", "2,0")],
)
def test_slices_of_a_gpu_by_uuid(monkeypatch: pytest.MonkeyPatch, given: str | None, left: str) -> None:
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    assert layout.visible(seen(monkeypatch, SLICED)) == cuda(left)


def test_hip_counts_within_what_rocr_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert layout.visible(MI300XS, [2, 3]) == {"HIP_VISIBLE_DEVICES": "2,3"}
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "4,5,6,7")
    some = seen(monkeypatch, MI300XS)
    assert layout.visible(some, [0, 1]) == {"HIP_VISIBLE_DEVICES": "0,1"}
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "3,1")
    assert layout.visible(seen(monkeypatch, MI300XS), [1]) == {"HIP_VISIBLE_DEVICES": "1"}


def test_hip_knows_cudas_variable_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    assert layout.visible(seen(monkeypatch, MI300XS)) == {"HIP_VISIBLE_DEVICES": "3,1"}
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "5")
    assert layout.visible(seen(monkeypatch, MI300XS)) == {"HIP_VISIBLE_DEVICES": "5"}


@pytest.mark.parametrize("found", [H200S, MI300XS], ids=["nvidia", "amd"])
def test_a_worker_sees_its_share_and_nothing_else(monkeypatch: pytest.MonkeyPatch, found: Hardware) -> None:
    """What `up` sets is what the worker's own look at the machine honours."""
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7")
    environments = [layout.visible(found, gpus) for gpus in layout.shares([4], 8)[0]]
    of_workers = []
    for environment in environments:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        of_workers.append(seen(monkeypatch, found).gpus)
    assert of_workers == [found.gpus[:4], found.gpus[4:]]
