"""The GPU's kernel without a GPU: its results in Triton's interpreter, and that it compiles for Hopper."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

INTERPRETED = Path(__file__).parent / "interpreted_kernel.py"


def test_agrees_with_torch_when_interpreted() -> None:
    """Triton interprets only what is imported with TRITON_INTERPRET set: hence the second process."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=5", INTERPRETED],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout
    assert " passed" in ran.stdout


POINTERS = {
    "found": "*fp32",
    "found_at": "*i32",
    "penalised": "*i64",
    "penalty": "*fp32",
    "temperatures": "*fp32",
    "floors": "*fp32",
    "seeds": "*i64",
    "token": "*i64",
    "numbers": "*fp32",
}


@pytest.mark.parametrize("kernel", ["find", "conclude"])
@pytest.mark.parametrize("absent", [(), ("penalised", "penalty", "temperatures", "floors", "seeds")])
@pytest.mark.parametrize(("dtype", "group"), [("fp32", 4), ("bf16", 8), ("fp16", 8)])
def test_compiles_for_hopper(kernel: str, absent: tuple[str, ...], dtype: str, group: int) -> None:
    from triton import compile  # type: ignore[import-untyped]
    from triton.backends.compiler import GPUTarget  # type: ignore[import-untyped]
    from triton.compiler import ASTSource  # type: ignore[import-untyped]

    from worker.dllm.evidence import kernels

    function = getattr(kernels, kernel)
    fixed: dict[str, int | None] = {"GROUP": group, "LANES": 2048 // group, "DRAWN_LANES": 128}
    fixed |= {"CHUNK": 8192, "CHUNKS": 32}
    fixed |= dict.fromkeys(absent)
    types = POINTERS | {"logits": f"*{dtype}"}
    signature = {
        name: "constexpr" if name in fixed else types.get(name, "i32") for name in function.arg_names
    }
    constants = {(n,): fixed[name] for n, name in enumerate(function.arg_names) if name in fixed}
    source = ASTSource(function, signature, constants)
    compiled = compile(source, target=GPUTarget("cuda", 90, 32), options={"enable_fp_fusion": True})
    assert compiled.asm["cubin"]
