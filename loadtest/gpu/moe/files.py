"""The files in which SGLang finds configurations: triton_3_6_0/E=256,N=512,device_name=NVIDIA_H200.json.

Source of the layout: SGLang's `fused_moe_triton_config`. The file of the second GEMM ends in `_down`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from loadtest.gpu.moe.candidates import Config

Pair = tuple[Config, Config | None]  # of the first GEMM and the second; None: the first one's


def folder_name(triton_version: str) -> str:
    return f"triton_{triton_version.replace('.', '_')}"


def write(folder: Path, experts: int, intermediate: int, chosen: Mapping[int, Pair]) -> list[Path]:
    """Writes both files, of unquantized weights, for this machine's GPU and Triton.

    Args:
        folder: of all versions of Triton.
        chosen: by the number of tokens.
    """
    import triton  # type: ignore[import-untyped]
    from sglang.srt.layers.moe.moe_runner.triton_utils import get_config_file_name

    folder = folder / folder_name(triton.__version__)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for down in (False, True):
        path = folder / get_config_file_name(experts, intermediate, None, down_moe=down)
        entries = {
            tokens: ((second or first) if down else first).entry()
            for tokens, (first, second) in sorted(chosen.items())
        }
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(entries, indent=1) + "\n", "utf-8")
        temporary.replace(path)
        written.append(path)
    return written
