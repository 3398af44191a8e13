"""Which requests a forward computes: denoising rows and prompts side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang.srt.dllm.mixin.req import DllmReqPhase
from sglang.srt.managers.schedule_policy import AddReqResult
from sglang.srt.model_executor.forward_batch_info import ForwardMode

from worker.dllm.prefill import limits, request
from worker.dllm.prefill.budget import RowBudget

TARGET = "sglang.srt.dllm.mixin.scheduler.SchedulerDllmMixin._process_dllm_batches"


def choose(original: Callable[..., Any], scheduler: Any, adder: Any, running_batch: Any) -> Any:
    """AROUND hook of SchedulerDllmMixin._process_dllm_batches.

    In a mixed round: every answer under way, then prompts under way, oldest first, then newcomers. Where
    mixing is off, prompts go first and alone, as in stock.
    """
    in_force = limits.of(scheduler.dllm_config)
    if not in_force:
        return original(scheduler, adder, running_batch=running_batch)
    prompts = scheduler.dllm_manager.get_prefill_requests()
    answers = scheduler.dllm_manager.get_decode_requests()
    if prompts and answers and not in_force.mixed:
        answers = []
    rows = in_force.beside(len(answers))
    if not rows:
        adder.prompt_blocks = 1
        return original(scheduler, adder, running_batch=running_batch)
    round_ = _Round(scheduler, adder, running_batch, RowBudget(rows, len(prompts)))
    if round_.go_on_with(_in(answers, DllmReqPhase.STAGING_DECODE)) and round_.go_on_with(
        _in(prompts, DllmReqPhase.STAGING_PREFILL)
    ):
        round_.admit(_in(answers, DllmReqPhase.INCOMING_DECODE) + _in(prompts, DllmReqPhase.INCOMING_PREFILL))
    return ForwardMode.DLLM_EXTEND


def _in(requests: list[Any], phase: DllmReqPhase) -> list[Any]:
    return [each for each in requests if each.dllm_phase == phase]


class _Round:
    def __init__(self, scheduler: Any, adder: Any, running_batch: Any, budget: RowBudget) -> None:
        self.scheduler = scheduler
        self.adder = adder
        self.running_batch = running_batch
        self.budget = budget

    def go_on_with(self, under_way: list[Any]) -> bool:
        """Whether there is room for more."""
        for each in under_way:
            self.adder.prompt_blocks = self.budget.share()
            result = self.scheduler.process_dllm_staging_reqs(self.adder, [each])
            self._account(each)
            if result != AddReqResult.CONTINUE:
                return False
        return True

    def admit(self, newcomers: list[Any]) -> None:
        owed = self._owed()
        for each in newcomers:
            if each.is_dllm_prefill() and self.budget.left < 1:
                continue
            needed = request.tokens_to_come(each, 0)
            _set_owed(self.adder, owed)
            if owed and needed >= self.adder.rem_total_tokens:
                return
            self.adder.prompt_blocks = self.budget.share()
            phase = each.dllm_phase
            result = self.scheduler.process_dllm_incoming_reqs(
                self.adder, [each], running_batch=self.running_batch
            )
            if not self._account(each):
                # Being looked at has moved it on; next round it would be taken for one that was admitted.
                each.dllm_phase = phase
                return
            owed += request.tokens_to_come(each, request.extent_end(each))
            if result != AddReqResult.CONTINUE:
                return

    def _account(self, each: Any) -> bool:
        """Books the rows of the request that was last asked for. Whether it takes part in the round."""
        added = bool(self.adder.can_run_list) and self.adder.can_run_list[-1] is each
        if each.is_dllm_prefill():
            tokens = request.extent_end(each) - request.prefix_length(each) if added else 0
            self.budget.spend(tokens // each.dllm_config.block_size)
        return added

    def _owed(self) -> int:
        """Tokens that the requests with KV may still need after this round.

        Stock reserves for the requests of the same round only, and a block that finds no KV later ends the
        scheduler: nothing takes an answer's KV back.
        """
        taking_part = {id(each) for each in self.adder.can_run_list}
        return sum(
            request.tokens_to_come(
                each, request.extent_end(each) if id(each) in taking_part else request.prefix_length(each)
            )
            for each in self.scheduler.dllm_manager.waiting_queue
            if each.dllm_phase in (DllmReqPhase.STAGING_DECODE, DllmReqPhase.STAGING_PREFILL)
        )


def _set_owed(adder: Any, owed: int) -> None:
    if hasattr(adder, "memory_budget"):
        adder.memory_budget.total_offset = adder.memory_budget.current_offset + owed
    else:
        adder.rem_total_token_offset = adder.cur_rem_token_offset + owed
