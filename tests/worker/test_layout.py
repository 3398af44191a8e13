"""GPUs handed out to the workers of one machine. No machine here has several: they are only counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine import hardware, layout
from worker.engine.hardware import Gpu, Hardware

GIB = 2**30
H200S = Hardware("nvidia", tuple(Gpu("NVIDIA H200", 140 * GIB, f"GPU-{i}aaa") for i in range(8)))
MI300XS = Hardware("amd", tuple(Gpu("AMD Instinct MI300X", 192 * GIB, f"GPU-{i}f") for i in range(8)))


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
    for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(variable, raising=False)


def seen(monkeypatch: pytest.MonkeyPatch, found: Hardware) -> Hardware:
    """As `detect` sees a machine's GPUs with the variables that are set."""
    monkeypatch.setattr(hardware, "nvidia_gpus", lambda: list(found.gpus) if found.vendor == "nvidia" else [])
    monkeypatch.setattr(hardware, "amd_gpus", lambda: list(found.gpus) if found.vendor == "amd" else [])
    return hardware.detect()


def test_cuda_by_uuid_of_those_that_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    assert layout.visible(H200S, [2, 3]) == {"CUDA_VISIBLE_DEVICES": "GPU-2aaa,GPU-3aaa"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6,4")
    some = seen(monkeypatch, H200S)
    assert layout.visible(some, [1]) == {"CUDA_VISIBLE_DEVICES": "GPU-4aaa"}


def test_cuda_without_uuids(monkeypatch: pytest.MonkeyPatch) -> None:
    nameless = Hardware("nvidia", tuple(gpu._replace(uuid="") for gpu in H200S.gpus))
    assert layout.visible(nameless, [2, 3]) == {"CUDA_VISIBLE_DEVICES": "2,3"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6, 4")
    assert layout.visible(seen(monkeypatch, nameless), [1]) == {"CUDA_VISIBLE_DEVICES": "4"}


def test_hip_counts_within_what_rocr_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert layout.visible(MI300XS, [2, 3]) == {"HIP_VISIBLE_DEVICES": "2,3"}
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "4,5,6,7")
    some = seen(monkeypatch, MI300XS)
    assert layout.visible(some, [0, 1]) == {"HIP_VISIBLE_DEVICES": "0,1"}
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "3,1")
    assert layout.visible(seen(monkeypatch, MI300XS), [1]) == {"HIP_VISIBLE_DEVICES": "1"}


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
