"""Tells, in SGLang's /server_info, what is not among its own settings: requests that decode at once.

`max_running_requests` there is the number of rows in the engine's buffers, prompt rows included.
"""

from __future__ import annotations

from typing import Any

TARGET = "sglang.srt.managers.scheduler.Scheduler.get_internal_state"


def tell_slots(answer: Any, scheduler: Any, request: Any) -> Any:
    """AFTER hook."""
    if scheduler.dllm_config is not None:
        answer.internal_state["dllm_slots"] = scheduler.dllm_config.max_running_requests
    return answer
