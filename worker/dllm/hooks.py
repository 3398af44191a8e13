"""What this SGLang needs of us, in this process."""

from __future__ import annotations

import os

from sglang.srt.dllm import algorithm as sglang_algorithms
from sglang.srt.dllm.mixin.scheduler import SchedulerDllmMixin
from sglang.srt.plugins.hook_registry import HookType

from worker.cpu import routed_scaling
from worker.dllm import aborts, checkpoint_tokens, ends, inbox, introspection, logits, per_request, refusals
from worker.dllm.hook import Hook
from worker.dllm.prefill import hooks as prefill
from worker.dllm.settings import NAME


def add_algorithm() -> None:
    """Makes `--dllm-algorithm PerRequest` known."""
    sglang_algorithms.algo_name_to_cls[NAME] = per_request.PerRequest


def hooks() -> list[Hook]:
    chosen = [
        Hook(checkpoint_tokens.TARGET, checkpoint_tokens.read_checkpoint, HookType.AROUND),
        Hook(per_request.PREPARATION, per_request.prepare, HookType.BEFORE),
        Hook(refusals.SHAPE, refusals.refuse_malformed, HookType.AROUND),
        Hook(refusals.TARGET, refusals.refuse, HookType.BEFORE),
        Hook(logits.TARGET, logits.leave_as_they_are, HookType.AROUND),
        Hook(inbox.TARGET, inbox.show, HookType.BEFORE),
        Hook(introspection.TARGET, introspection.tell_slots, HookType.AFTER),
        Hook(ends.TARGET, ends.end_at_first, HookType.AROUND),
    ]
    if not hasattr(SchedulerDllmMixin, "validate_dllm_request"):  # 0.5.17
        chosen.append(Hook(aborts.TARGET, aborts.account_for_all, HookType.BEFORE))
    if os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":
        chosen.append(Hook(routed_scaling.TARGET, routed_scaling.scale_in_router, HookType.AROUND))
    return chosen


def dispensable_hooks() -> list[Hook]:
    """Without all of these the engine computes prompts as stock does, and says so."""
    return [*prefill.hooks(), *prefill.backend_hooks()]
