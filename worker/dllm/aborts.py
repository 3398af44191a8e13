"""Frees the whole KV cache of an aborted request where SGLang (0.5.17, with its prefix cache) frees a part.

It takes a request's KV cache to be as long as its prompt and answer. The block that is being denoised is
in neither, so its page is lost, and an idle scheduler that misses a page ends itself. Between two blocks
a request may have no row in the table of pages; then nothing is freed, and its pages stay locked for good.
"""

from __future__ import annotations

from typing import Any

import torch

TARGET = "sglang.srt.managers.scheduler.Scheduler.abort_request"


def account_for_all(scheduler: Any, abort: Any) -> None:
    """BEFORE hook: makes the requests about to be aborted look as long as what they hold."""
    if scheduler.dllm_config is None:
        return
    manager = scheduler.dllm_manager
    for request in {*manager.waiting_queue, *manager.staging_queue}:
        holds_pages = request.kv is not None
        if holds_pages and (abort.abort_all or request.rid.startswith(abort.rid)):
            if request.req_pool_idx is None:
                _give_row(scheduler.req_to_token_pool, request)
            else:
                request.output_ids = request.get_fill_ids()[len(request.origin_input_ids) :]


def _give_row(table: Any, request: Any) -> None:
    if table.alloc([request]) is not None:
        pages = request.prefix_indices.to(torch.int32)
        table.write((request.req_pool_idx, slice(0, len(pages))), pages)
