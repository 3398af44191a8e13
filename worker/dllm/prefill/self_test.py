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

from worker.dllm.prefill import cache_order, comparison, limits
from worker.dllm.prefill.limits import Limits

TARGET = "sglang.srt.managers.scheduler.Scheduler.__init__"
STATE = "sglang.srt.managers.scheduler.Scheduler.get_internal_state"

_log = logging.getLogger(__name__)

_WRITES_FIRST = ("flashinfer", "torch_native", "triton")
"""Attention backends that write a layer's KV before they read it, FlashInfer with `cache_order`."""

_ROUNDING = {torch.float32: 1e-4}
_COARSE_ROUNDING = 0.1
"""How far the KV of the same block may differ in the first two layers, by its type: kernels choose their
tiles by the number of rows. Deeper, a token of a 16-bit model may have gone to another expert."""

_NOTICED = 4
"""How many times further another context must move layer 1, so that blocks which see too little cannot pass;
and half of it what must still hold in every deeper one."""

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
    from sglang.srt.plugins.hook_registry import HookRegistry
    from sglang.srt.runtime_context import get_exec

    from worker.dllm.prefill.hooks import hooks

    runner = scheduler.tp_worker.model_runner
    if get_exec().deterministic.enable_deterministic_inference:
        return (
            "--enable-deterministic-inference asks for answers that do not depend on what else a forward "
            "computes, which is not known of a prompt's rows"
        )
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
            # As SGLang's own start does; buffers made in inference mode would be of no use outside it.
            with torch.no_grad():
                difference = comparison.compare(scheduler, blocks)
            reason = judged(blocks, difference, scheduler.token_to_kv_pool_allocator.get_kvcache().dtype)
            if reason is not None:
                return reason
    except Exception as error:  # whatever it is, stock behaviour is there
        _log.exception("dllm-stack: the self-test of prompts failed")
        return f"the self-test ended with {error!r}"
    return None


def judged(blocks: int, seen: comparison.Differences, kv_type: torch.dtype) -> str | None:
    """Why the differences do not show that a forward of so many blocks is right; None if they do."""
    allowed = _ROUNDING.get(kv_type, _COARSE_ROUNDING)
    words = f"KV of {blocks} blocks in one forward, against one at a time"
    _log.info(
        "dllm-stack: %s: differs by %s; after other blocks by %s", words, seen.together, seen.other_context
    )
    early = max(seen.together[:2])
    if not early <= allowed:
        return f"{words}: differs by {early:.2g} in the first layers, expected at most {allowed}"
    for layer, (same, other) in enumerate(zip(seen.together, seen.other_context, strict=True)):
        if layer and not same < other / (_NOTICED if layer == 1 else _NOTICED / 2):
            near = f"too near to the {other:.2g} that another context makes"
            return f"{words}: differs by {same:.2g} in layer {layer}, {near}"
    return None


def _agreed(scheduler: Any, reason: str | None) -> str | None:
    """The reason of this rank, or that another one has; every rank has to decide alike."""
    group = scheduler.tp_cpu_group
    if torch.distributed.get_world_size(group) == 1:
        return reason
    failed = torch.tensor(int(reason is not None))
    torch.distributed.all_reduce(failed, op=torch.distributed.ReduceOp.MAX, group=group)
    return reason or ("another rank could not" if failed.item() else None)
