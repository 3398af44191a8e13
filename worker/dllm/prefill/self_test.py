"""At the start of every scheduler: whether many blocks a forward give what one at a time gives, here.

What goes wrong here goes wrong silently: a row that reads stale KV changes few tokens, and a hook that
SGLang could not apply is only logged. So nothing is in force before this has passed, and what fails leaves
the process with stock behaviour, a warning, and a state that `/server_info` reports.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Any

import torch
from sglang.srt.plugins.hook_registry import HookRegistry

from worker.dllm.prefill import cache_order, comparison, limits
from worker.dllm.prefill.limits import Limits

TARGET = "sglang.srt.managers.scheduler.Scheduler.__init__"
STATE = "sglang.srt.managers.scheduler.Scheduler.get_internal_state"

_log = logging.getLogger(__name__)

_WRITES_FIRST = ("flashinfer", "torch_native", "triton")
"""Attention backends that write a layer's KV before they read it, FlashInfer with `cache_order`."""

_ROUNDING = {torch.float32: 1e-4}
_COARSE_ROUNDING = 0.1
"""How far the same block may differ, by the type of the KV. Kernels choose their tiles by the number of
rows; in 16 bits and below a token's last expert may then be another one."""

_NOTICED = 4
"""How many times further another context must move the KV, so that missing blocks could not pass."""

_SMALL = 4
"""Blocks of the smaller comparison: within the captured graphs, where the larger one may be beyond."""


def decide(_: None, scheduler: Any, *args: Any, **kwargs: Any) -> None:
    """AFTER hook of Scheduler.__init__: puts the configured limits in force, or leaves stock behaviour."""
    config = scheduler.dllm_config
    if config is None:
        return
    asked = limits.asked_for(config.algorithm_config)
    # Such an algorithm encodes the prompt in another way.
    if not asked or getattr(config, "requires_separate_context_encoding", False):
        return
    if not config.first_done_first_out_mode:
        asked = Limits(alone=asked.alone)
    scheduler.prefill_fallback = _agreed(scheduler, _cannot(scheduler, asked))
    if scheduler.prefill_fallback is None:
        limits.put_in_force(config, asked)
        scheduler.prefill_fallback = _agreed(scheduler, _wrong(scheduler, asked))
    if scheduler.prefill_fallback is None:
        _log.info("dllm-stack: prompts take up to %d blocks a forward", asked.most)
        return
    limits.put_in_force(config, limits.STOCK)
    _log.warning(
        "dllm-stack: PROMPTS ARE COMPUTED ONE BLOCK A ROUND, as in stock SGLang, many times slower: %s",
        scheduler.prefill_fallback,
    )


def report(answer: Any, scheduler: Any, *args: Any) -> Any:
    """AFTER hook of Scheduler.get_internal_state: `dllm_prefill` in each of `internal_states`.

    `fallback` is why prompts are computed as in stock although more was asked for, else null.
    """
    if scheduler.dllm_config is not None:
        in_force = limits.of(scheduler.dllm_config)
        fallback = getattr(scheduler, "prefill_fallback", None)
        answer.internal_state["dllm_prefill"] = {**asdict(in_force), "fallback": fallback}
    return answer


def _cannot(scheduler: Any, asked: Limits) -> str | None:
    """What stands against it before anything is computed."""
    from worker.dllm.prefill.hooks import hooks

    runner = scheduler.tp_worker.model_runner
    backends = {runner.prefill_attention_backend_str, runner.decode_attention_backend_str}
    needed = [hook.target for hook in hooks()]
    if "flashinfer" in backends:
        needed.append(cache_order.TARGET)
    missing = [target for target in needed if target not in HookRegistry._patched]
    if missing:
        return f"this SGLang has no place for the hooks on {', '.join(missing)}"
    unknown = sorted(backends - set(_WRITES_FIRST))
    if unknown:
        return f"attention backend {', '.join(unknown)} is not known to write KV before it reads it"
    spare = scheduler.req_to_token_pool.size - scheduler.dllm_config.max_running_requests
    if spare < asked.most:
        return (
            f"--max-running-requests leaves {spare} rows beside the slots, and {asked.most} are asked for: "
            f"it has to be slots + max(prompt_rows, mixed_prompt_rows)"
        )
    return None


def _wrong(scheduler: Any, asked: Limits) -> str | None:
    """What the model, the machine and the hooks get wrong together."""
    block = scheduler.dllm_config.block_size
    room = min(scheduler.model_config.context_len, scheduler.max_total_num_tokens) // block - 1
    largest = min(max(asked.most, 2), room)
    try:
        for blocks in sorted({min(_SMALL, largest), largest}):
            difference = comparison.compare(scheduler, blocks)
            reason = _judged(blocks, difference, scheduler.token_to_kv_pool_allocator.get_kvcache().dtype)
            if reason is not None:
                return reason
    except Exception as error:  # whatever it is, stock behaviour is there
        _log.exception("dllm-stack: the self-test of prompts failed")
        return f"the self-test ended with {error!r}"
    return None


def _judged(blocks: int, difference: comparison.Difference, kv_type: torch.dtype) -> str | None:
    allowed = _ROUNDING.get(kv_type, _COARSE_ROUNDING)
    seen = f"the KV of {blocks} blocks in one forward differs by {difference.together:.2g} from one at a time"
    _log.info("dllm-stack: %s; other blocks before make %.2g", seen, difference.other_context)
    if not difference.together <= allowed:
        return f"{seen}; expected: at most {allowed}"
    if not difference.other_context >= _NOTICED * difference.together or difference.other_context == 0:
        return (
            f"{seen}; other blocks before make {difference.other_context:.2g}, too little to tell them apart"
        )
    return None


def _agreed(scheduler: Any, reason: str | None) -> str | None:
    """The reason of this rank, or that another one has; every rank has to decide alike."""
    group = scheduler.tp_cpu_group
    if torch.distributed.get_world_size(group) == 1:
        return reason
    failed = torch.tensor(int(reason is not None))
    torch.distributed.all_reduce(failed, op=torch.distributed.ReduceOp.MAX, group=group)
    return reason or ("another rank could not" if failed.item() else None)
