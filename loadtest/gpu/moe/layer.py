"""A layer of LLaDA2-mini's experts with random weights, in SGLang's hands."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from loadtest.gpu.architecture import MINI
from loadtest.gpu.moe import files
from loadtest.gpu.moe.candidates import Config, Gemm
from loadtest.gpu.moe.files import Pair

HIDDEN: int = MINI["hidden_size"]
EXPERTS: int = MINI["num_experts"]
TOP_K: int = MINI["num_experts_per_tok"]
INTERMEDIATE: int = MINI["moe_intermediate_size"]

_FOLDER = "SGLANG_MOE_CONFIG_DIR"
_DTYPE = torch.bfloat16
_DEVICE = "cuda"


def prepare() -> None:
    """SGLang reads its server's settings wherever it runs. To be called once in a process."""
    from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

    set_global_server_args_for_scheduler(ServerArgs(model_path="dummy"))


class Weights:
    """(experts, 2 x intermediate, hidden) of the first GEMM, (experts, hidden, intermediate) of the other."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        make: dict[str, Any] = {"device": _DEVICE, "dtype": _DTYPE}
        self.up = torch.randn(EXPERTS, 2 * INTERMEDIATE, HIDDEN, **make).mul_(0.02)
        self.down = torch.randn(EXPERTS, HIDDEN, INTERMEDIATE, **make).mul_(0.02)


class Layer:
    """For so many tokens, each of which goes to random experts."""

    def __init__(self, tokens: int, weights: Weights) -> None:
        self.tokens, self.weights = tokens, weights
        torch.manual_seed(tokens)
        self.hidden = torch.randn(tokens, HIDDEN, device=_DEVICE, dtype=_DTYPE)
        scores = torch.randn(tokens, EXPERTS, device=_DEVICE).sigmoid()
        chosen, ids = scores.topk(TOP_K, dim=-1)
        self.gates = chosen / chosen.sum(-1, keepdim=True)
        self.ids = ids.to(torch.int32)
        rows = tokens * TOP_K + min(tokens * TOP_K, EXPERTS + 1) * 127
        make: dict[str, Any] = {"device": _DEVICE, "dtype": _DTYPE}
        self._gate_up = torch.empty(rows, 2 * INTERMEDIATE, **make)
        self._activated = torch.randn(rows, INTERMEDIATE, **make)
        self._parts = torch.empty(tokens, TOP_K, HIDDEN, **make)
        self._sorted: dict[int, Any] = {}

    @property
    def bytes_moved(self) -> int:
        """At least: the weights of the experts that have a token once, and every activation, in and out."""
        used = int(self.ids.unique().numel())
        weights = used * 3 * HIDDEN * INTERMEDIATE
        rows = self.tokens * TOP_K
        activations = 2 * self.tokens * HIDDEN + 2 * rows * (3 * INTERMEDIATE + HIDDEN)
        return 2 * (weights + activations)

    def gemm(self, which: Gemm, config: Config) -> None:
        """One launch of the kernel, as SGLang's `fused_experts` does it."""
        import triton.language as tl  # type: ignore[import-untyped]
        from sglang.kernels.ops.moe.fused_moe_triton_kernels import invoke_fused_moe_kernel
        from sglang.srt.layers.moe.moe_runner.triton_utils import moe_align_block_size

        if config.block_m not in self._sorted:
            self._sorted[config.block_m] = moe_align_block_size(self.ids, config.block_m, EXPERTS)
        first = which == "up"
        invoke_fused_moe_kernel(
            self.hidden if first else self._activated,
            self.weights.up if first else self.weights.down,
            None,
            self._gate_up if first else self._parts,
            *(None, None, None),
            self.gates,
            self.ids,
            *self._sorted[config.block_m],
            not first,
            TOP_K if first else 1,
            config.kernel(),
            compute_type=tl.bfloat16,
            use_fp8_w8a8=False,
            use_int8_w8a8=False,
            use_int8_w8a16=False,
            use_int4_w4a16=False,
            per_channel_quant=False,
            a_use_tma=config.tma,
            b_use_tma=config.tma,
            filter_expert=False,
            router_topk=1 if first else TOP_K,
        )

    def whole(self, out: Tensor) -> Tensor:
        """All kernels of the layer, with the configuration that SGLang finds. Into `out`, as in the model."""
        from sglang.srt.layers.moe.moe_runner import MoeRunnerConfig
        from sglang.srt.layers.moe.moe_runner.triton_utils import fused_experts

        out.copy_(self.hidden)
        config = MoeRunnerConfig(num_experts=EXPERTS, num_local_experts=EXPERTS)
        result: Tensor = fused_experts(
            out, self.weights.up, self.weights.down, (self.gates, self.ids, None), config
        )
        return result


@contextmanager
def configured(tokens: int, pair: Pair | None) -> Iterator[None]:
    """SGLang finds this configuration alone; None: what it has itself."""
    from sglang.srt.layers.moe.moe_runner.triton_utils import fused_moe_triton_config

    before = os.environ.pop(_FOLDER, None)
    with tempfile.TemporaryDirectory() as folder:
        if pair is not None:
            files.write(Path(folder) / "configs", EXPERTS, INTERMEDIATE, {tokens: pair})
            os.environ[_FOLDER] = folder
        fused_moe_triton_config.get_moe_configs.cache_clear()
        try:
            yield
        finally:
            fused_moe_triton_config.get_moe_configs.cache_clear()
            os.environ.pop(_FOLDER, None)
            if before is not None:
                os.environ[_FOLDER] = before


def stock(tokens: int) -> Pair:
    """What SGLang has itself."""
    from sglang.srt.layers.moe.moe_runner.triton_utils import try_get_optimal_moe_config

    from loadtest.gpu.moe import candidates

    with configured(tokens, None):
        up, (down, _) = try_get_optimal_moe_config(
            (EXPERTS, 2 * INTERMEDIATE, HIDDEN),
            (EXPERTS, HIDDEN, INTERMEDIATE),
            TOP_K,
            None,
            tokens,
            return_down_config=True,
        )
    return candidates.of(up), candidates.of(down) if down else None
