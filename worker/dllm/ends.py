"""Ends an answer at the first of its ends inside a block: an end token, a stop string, or the longest length.

SGLang looks at all tokens of a block at once, at one kind of end after the other. 0.5.17 begins with the
length, so that a block which also reaches `max_new_tokens` is no longer searched for an end token; and all
versions look for any stop string before they look for an end token, even for one far before it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

TARGET = "sglang.srt.managers.schedule_batch.Req.update_finish_state"


def end_at_first(original: Callable[..., None], request: Any, new_accepted_len: int = 1) -> None:
    """AROUND hook: once a block has ended the answer, looks at it again as if it had come token by token."""
    was_finished = request.finished()
    original(request, new_accepted_len)
    # Without a length it was aborted.
    if request.dllm_config is None or was_finished or request.finished_len is None:
        return
    found = request.finished_reason, request.finished_len
    answer, longest = request.output_ids, request.sampling_params.max_new_tokens
    before = len(answer) - new_accepted_len
    request.finished_reason = request.finished_len = None
    request.sampling_params.max_new_tokens = sys.maxsize
    try:
        for end in range(before + 1, min(found[1], longest) + 1):
            request.output_ids = answer[:end]
            original(request, end - before)
            if request.finished():
                return
    finally:
        request.output_ids, request.sampling_params.max_new_tokens = answer, longest
    request.finished_reason, request.finished_len = found
