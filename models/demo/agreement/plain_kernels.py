"""float32 on an NVIDIA GPU, for which SGLang has no kernels: its own plain PyTorch operators instead.

SGLang's compiled normalisation takes 16-bit numbers only, and its fused experts round a float32 result to
float16 (`compute_type` in moe_runner/triton_utils/fused_moe.py). Every operator of SGLang has a plain
form for machines without kernels; scheduler, KV cache, attention and decoding stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ENVIRONMENT = {
    # Triton multiplies float32 in TF32, with 10 bits, unless told otherwise.
    "TRITON_F32_DEFAULT": "ieee",
}


def register() -> None:
    """An entry point in SGLang's plugin group.

    Raises:
        SystemExit: one of the hooks cannot be registered. SGLang logs any other exception and goes on.
    """
    try:
        from sglang.srt.plugins.hook_registry import HookType

        from worker.cpu import routed_scaling
        from worker.dllm.hook import Hook, install

        install(
            [
                Hook(
                    "sglang.srt.layers.utils.multi_platform.MultiPlatformOp.dispatch_forward",
                    _plain_form,
                    HookType.REPLACE,
                ),
                Hook("sglang.srt.layers.moe.topk.biased_grouped_topk", _route, HookType.REPLACE),
                Hook("sglang.srt.models.utils.can_use_fused_inplace_qknorm", _never, HookType.REPLACE),
                # The plain mixture forgets to scale its result, as on a CPU.
                Hook(routed_scaling.TARGET, routed_scaling.scale_in_router, HookType.AROUND),
            ]
        )
    except Exception as error:
        raise SystemExit(f"dllm-stack: the plain kernels failed: {error!r}") from error


def _plain_form(operator: Any) -> Callable[..., Any]:
    form: Callable[..., Any] = operator.forward_native
    return form


def _route(**arguments: Any) -> Any:
    from sglang.srt.layers.moe.topk import biased_grouped_topk_impl

    return biased_grouped_topk_impl(**arguments)


def _never(*_: Any, **__: Any) -> bool:
    return False
