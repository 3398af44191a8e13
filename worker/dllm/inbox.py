"""Whether the scheduler has been sent something, looked at between two denoise steps.

So that a round may be long, and still neither a new request nor an abort waits for its end.
"""

from __future__ import annotations

from typing import Any

import zmq

from worker.dllm.per_request import PerRequest

TARGET = "sglang.srt.dllm.mixin.scheduler.SchedulerDllmMixin.get_new_batch_dllm"


def show(scheduler: Any, *args: Any, **kwargs: Any) -> None:
    """BEFORE hook: shows the decoder the inbox of this scheduler.

    With several GPUs only the first one's scheduler has it, and all must make the same steps.
    """
    algorithm = scheduler.tp_worker.dllm_algorithm
    if not isinstance(algorithm, PerRequest) or algorithm.decoder.is_wanted is not None:
        return
    inbox = scheduler.ipc_channels.recv_from_tokenizer
    alone = scheduler.server_args.tp_size == 1 and isinstance(inbox, zmq.Socket)
    algorithm.decoder.is_wanted = (lambda: bool(inbox.events & zmq.POLLIN)) if alone else (lambda: False)
