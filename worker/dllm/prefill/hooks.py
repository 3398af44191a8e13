"""Where SGLang is hooked for prompts of many blocks, by what this version has."""

from __future__ import annotations

import os

from sglang.srt.managers.schedule_policy import PrefillAdder
from sglang.srt.plugins.hook_registry import HookType

from worker.dllm.hook import Hook
from worker.dllm.prefill import budget, cache_order, logits, request, rounds, rows, self_test

_ADDER = "sglang.srt.managers.schedule_policy.PrefillAdder"
_REQUEST = "sglang.srt.dllm.mixin.req.ReqDllmMixin"


def hooks() -> list[Hook]:
    """Those that must all have landed. They change nothing where no prompt rows are configured."""
    newcomer = (
        Hook(f"{_ADDER}._get_dllm_extend_len", budget.newcomer_length, HookType.AROUND)
        if hasattr(PrefillAdder, "_get_dllm_extend_len")
        else Hook(f"{_ADDER}._add_dllm_req", budget.add_newcomer, HookType.AROUND)
    )
    return [
        Hook(self_test.TARGET, self_test.decide, HookType.AFTER),
        Hook(self_test.STATE, self_test.report, HookType.AFTER),
        Hook(f"{_ADDER}._init_dllm_meta", budget.make_room, HookType.AFTER),
        Hook(f"{_ADDER}._get_dllm_remain_tokens", budget.whole_block, HookType.AFTER),
        Hook(f"{_ADDER}.add_dllm_staging_req", budget.add_prompt_under_way, HookType.AROUND),
        newcomer,
        Hook(f"{_REQUEST}._init_fill_ids_for_dllm", request.offset_follows_prefix, HookType.AFTER),
        Hook(f"{_REQUEST}._update_block_offset_for_dllm", request.offset_follows_prefix, HookType.AFTER),
        Hook(rounds.TARGET, rounds.choose, HookType.AROUND),
        Hook(rows.TARGET, rows.forward_in_rows, HookType.AROUND),
        Hook(logits.TARGET, logits.leave_out, HookType.AROUND),
    ]


def backend_hooks() -> list[Hook]:
    """Of attention backends: needed only where that backend is used, and not importable everywhere."""
    if os.environ.get("SGLANG_USE_CPU_ENGINE") == "1":
        return []
    return [Hook(cache_order.TARGET, cache_order.write_first, HookType.AROUND)]
