"""What the tuning of the mixture of experts tries, and where it writes it; the timing is for a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadtest.gpu import steps
from loadtest.gpu.moe import __main__ as command
from loadtest.gpu.moe import candidates
from loadtest.gpu.moe.candidates import Config
from worker import cpu

SIZES = list(command.SIZES)

# In a process of its own, as SGLang is imported. Its name of the GPU and its Triton are replaced.
WRITING = """
import sys, triton
from pathlib import Path
from loadtest.gpu.moe import candidates, files, layer
layer.prepare()
from sglang.srt.layers.moe.moe_runner.triton_utils import fused_moe_triton_config as sglang
triton.__version__ = "3.6.0"
sglang.get_device_name = lambda *_: "NVIDIA H200"
own = layer.stock(1024)
pair = candidates.of(own[0].entry() | {"num_warps": 8}), candidates.of(own[1].entry() | {"num_stages": 5})
files.write(Path(sys.argv[1]), 256, 512, {1024: pair, 32: candidates.known(32)})
with layer.configured(1024, pair):
    first, (second, _) = sglang.try_get_optimal_moe_config(
        (256, 1024, 2048), (256, 2048, 512), 8, None, 1000, return_down_config=True
    )
assert (candidates.of(first), candidates.of(second)) == pair != own
assert layer.stock(1024) == own
"""


def test_blocks_of_rows_are_near_what_an_expert_gets() -> None:
    blocks = {tokens: candidates.blocks_m(tokens, 8, 256) for tokens in SIZES}
    assert blocks[32] == blocks[64] == [16]
    assert blocks[1024] == [16, 32, 64, 128]
    assert blocks[4096] == [64, 128]


@pytest.mark.parametrize("block", [16, 32, 64, 128])
def test_candidates_fit_and_differ(block: int) -> None:
    up, down = candidates.enumerate_for("up", block), candidates.enumerate_for("down", block)
    assert len(set(down)) == len(down) == 2 * len(up)
    assert all(each.fits and each.block_m == block for each in down)
    assert not any(each.tma for each in up)
    assert [each.stages * (block + each.block_n) * each.block_k * 2 for each in up if each.stages == 5]
    assert not Config(block, 256, 256, 1, 8, 5).fits


def test_every_number_of_tokens_has_compiled_candidates_of_both_gemms() -> None:
    tasks = list(candidates.tasks(SIZES, 8, 256, most=4))
    assert len(tasks) == len(set(tasks))
    for tokens in SIZES:
        asked = command._of(tokens, tasks)
        assert {(gemm, config.block_m) for gemm, config in asked} == {
            (gemm, block) for gemm in ("up", "down") for block in candidates.blocks_m(tokens, 8, 256)
        }
        # Those of SGLang's own file too.
        assert {("up", candidates.known(tokens)[0]), ("down", candidates.known(tokens)[1])} <= set(asked)


def test_an_entry_of_sglangs_files_is_read_and_written() -> None:
    config = Config(16, 128, 64, 1, 4, 2, tma=True)
    assert candidates.of(config.entry()) == config
    assert "USE_TMA" not in config.kernel()
    bare = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
    assert candidates.of(bare) == Config(16, 32, 64, 1, warps=4, stages=3)


def test_files_are_where_sglang_looks(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", WRITING, str(tmp_path)], env=os.environ | cpu.engine_environment(), check=True
    )
    name = "triton_3_6_0/E=256,N=512,device_name=NVIDIA_H200"
    for ending in ("", "_down"):
        assert list(json.loads((tmp_path / f"{name}{ending}.json").read_text())) == ["32", "1024"]


def test_arguments() -> None:
    arguments = command.parser().parse_args(["--out", "here"])
    assert arguments.tokens == SIZES
    assert (arguments.seconds, arguments.out) == (240, Path("here"))


def test_a_comparison_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no configurations"):
        steps._with_files(tmp_path)
