"""No logits for prompt rows: nothing reads them, and a vocabulary of 157,184 makes them dear.

In eager forwards only: a captured graph replays without Python, and computes the logits of every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

TARGET = "sglang.srt.layers.logits_processor.LogitsProcessor._get_dllm_logits"

_wanted: int | None = None


@contextmanager
def only_first(tokens: int) -> Iterator[None]:
    """Within it a forward computes the logits of its first `tokens` tokens only."""
    global _wanted
    _wanted = tokens
    try:
        yield
    finally:
        _wanted = None


def leave_out(original: Callable[..., Any], processor: Any, hidden: Any, lm_head: Any, metadata: Any) -> Any:
    """AROUND hook; `hidden` is [tokens, hidden size]."""
    if _wanted is None or _wanted >= hidden.shape[0]:
        return original(processor, hidden, lm_head, metadata)
    if _wanted == 0:
        from sglang.srt.layers.logits_processor import LogitsProcessorOutput

        return LogitsProcessorOutput(next_token_logits=None, full_logits=None)
    return original(processor, hidden[:_wanted], lm_head, metadata)
