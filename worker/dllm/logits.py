"""Leaves the logits as the model made them, where SGLang copies them all to float32.

The copy reads 2 bytes and writes 4 for each of 157,184 logits a position, and whoever reads it reads 4 again:
five times the memory traffic of reading the logits themselves. A float32 made of a bfloat16 says no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang.srt.runtime_context import get_exec

from worker.dllm.settings import NAME

TARGET = "sglang.srt.layers.logits_processor.LogitsProcessor._copy_logits_to_buffer"


def leave_as_they_are(
    original: Callable[..., Any], processor: Any, logits: Any, *args: Any, **kwargs: Any
) -> Any:
    """AROUND hook."""
    if get_exec().dllm.dllm_algorithm != NAME or processor.final_logit_softcapping:
        return original(processor, logits, *args, **kwargs)
    return logits[:, : processor.vocab_size]
