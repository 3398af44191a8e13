"""Our decoder as one of SGLang's algorithms."""

from __future__ import annotations

from typing import Any

from sglang.srt.dllm.algorithm.base import DllmAlgorithm

from worker.dllm import ranks
from worker.dllm.decoder import Decoder
from worker.dllm.prefill.request import prefix_length
from worker.dllm.settings import NAME, DecoderSettings

PREPARATION = "sglang.srt.managers.tp_worker.TpModelWorker.forward_batch_generation"


class PerRequest(DllmAlgorithm):  # type: ignore[misc]
    def __init__(self, config: Any) -> None:
        """
        Raises:
            ValueError: the config is wrong, or SGLang decodes in lockstep.
        """
        super().__init__(config)
        if not self.fdfo:
            raise ValueError(f"{NAME} lets each request leave when it is done: it needs --dllm-fdfo")
        self.decoder = Decoder(DecoderSettings.read(config.algorithm_config), self.block_size, self.mask_id)
        if self.decoder.settings.check_ranks:
            self.decoder.compare = ranks.of_this_engine()

    def run(self, model_runner: Any, forward_batch: Any, algo_states: Any = None) -> Any:
        return self.decoder.run(model_runner, forward_batch, algo_states)


def prepare(worker: Any, batch: Any, *args: Any, **kwargs: Any) -> None:
    """BEFORE hook of a round: gives each request the state of its block, where it begins one."""
    algorithm = worker.dllm_algorithm if batch is not None and batch.dllm_config is not None else None
    if not isinstance(algorithm, PerRequest):
        return
    for request in batch.reqs:
        # A request that lost its KV begins its block again.
        if request.dllm_algo_state is None or not request.dllm_incomplete_ids:
            request.dllm_algo_state = algorithm.decoder.begin(request, prefix_length(request))
