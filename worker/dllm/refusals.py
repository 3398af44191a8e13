"""Refuses what block decoding cannot honour, before it reaches the scheduler's loop.

A grammar would be waited for in a part of the loop that block decoding never enters, and the engine
would hang for good; logprobs would come back empty.
"""

from __future__ import annotations

from typing import Any

TARGET = "sglang.srt.managers.scheduler.Scheduler.validate_dllm_request"

_GRAMMARS = ("json_schema", "regex", "ebnf", "structural_tag")


def refuse(stock: str | None, scheduler: Any, request: Any) -> str | None:
    """AFTER hook: the message of a 400, or None where the request can be served."""
    if stock is not None or scheduler.dllm_config is None:
        return stock
    refused = [name for name in _GRAMMARS if getattr(request.sampling_params, name) is not None]
    if request.return_logprob:
        refused.append("return_logprob")
    if not refused:
        return None
    return f"a diffusion language model cannot honour {', '.join(refused)}"
