"""Refuses what block decoding cannot honour, before it reaches the scheduler's loop.

A grammar would be waited for in a part of the loop that block decoding never enters, and the engine
would hang for good; logprobs would come back empty.
"""

from __future__ import annotations

from typing import Any

IN_SCHEDULER = "sglang.srt.managers.scheduler.Scheduler.validate_dllm_request"
# For a SGLang whose scheduler has no such method (0.5.17).
IN_TOKENIZER = "sglang.srt.managers.tokenizer_manager.TokenizerManager._validate_one_request"

_GRAMMARS = ("json_schema", "regex", "ebnf", "structural_tag")


def refuse_in_scheduler(stock: str | None, scheduler: Any, request: Any) -> str | None:
    """AFTER hook: the message of a 400, or None where the request can be served."""
    if stock is not None or scheduler.dllm_config is None:
        return stock
    grammars = [name for name in _GRAMMARS if getattr(request.sampling_params, name)]
    return _refusal(grammars, request.return_logprob)


def refuse_in_tokenizer(stock: None, manager: Any, request: Any, input_ids: list[int] | None) -> None:
    """AFTER hook.

    Raises:
        ValueError: becomes a 400.
    """
    if manager.server_args.dllm_algorithm is None:
        return
    grammars = [name for name in _GRAMMARS if (request.sampling_params or {}).get(name)]
    refusal = _refusal(grammars, getattr(request, "return_logprob", False))
    if refusal is not None:
        raise ValueError(refusal)


def _refusal(grammars: list[str], logprobs: bool) -> str | None:
    refused = [*grammars, "return_logprob"] if logprobs else grammars
    return f"a diffusion language model cannot honour {', '.join(refused)}" if refused else None
