"""On a CPU SGLang forgets to scale what the routed experts return; this makes it remember."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TARGET = "sglang.srt.models.llada2.LLaDA2MoeSparseMoeBlock.__init__"


def scale_in_router(original: Callable[..., None], block: Any, *args: Any, **kwargs: Any) -> None:
    """AROUND hook of a mixture's constructor.

    The fused GPU kernels multiply by `routed_scaling_factor` themselves, so the router leaves it out.
    The CPU's plain implementation does not; the router can, and has a switch for it.
    """
    original(block, *args, **kwargs)
    block.topk.topk_config.apply_routed_scaling_factor_on_output = True
