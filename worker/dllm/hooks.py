"""Which hooks apply in this process."""

from __future__ import annotations

import os

from sglang.srt.plugins.hook_registry import HookType

from worker.cpu import routed_scaling
from worker.dllm import checkpoint_tokens, refusals
from worker.dllm.hook import Hook


def hooks() -> list[Hook]:
    chosen = [
        Hook(checkpoint_tokens.TARGET, checkpoint_tokens.read_checkpoint, HookType.AROUND),
        Hook(refusals.TARGET, refusals.refuse, HookType.AFTER),
    ]
    if os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":
        chosen.append(Hook(routed_scaling.TARGET, routed_scaling.scale_in_router, HookType.AROUND))
    return chosen
