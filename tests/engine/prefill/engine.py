"""A real scheduler of SGLang with its model, in this process and without a loop, so that a test decides
what happens between which rounds. What it sends to a tokenizer's process nobody reads.

Run in a process of its own with the environment of a CPU engine.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml


class Engine:
    def __init__(self, checkpoint: Path, *, decoding: dict[str, Any], **server_args: Any) -> None:
        from sglang.srt.plugins import load_plugins

        load_plugins()
        from sglang.srt.managers.scheduler import Scheduler
        from sglang.srt.server_args import PortArgs, ServerArgs

        config = checkpoint.parent / "decoding.yaml"
        config.write_text(yaml.safe_dump(decoding))
        arguments = ServerArgs(
            model_path=str(checkpoint),
            trust_remote_code=True,
            device="cpu",
            dtype="float32",
            attention_backend="torch_native",
            dllm_algorithm="LowConfidence",
            dllm_algorithm_config=str(config),
            **server_args,
        )
        ports = PortArgs.init_new(arguments)
        _publish(arguments)
        extra = (0, 0, 0, 0, 0, 0, None) if _positional_ranks(Scheduler) else ()
        self.scheduler: Any = Scheduler(arguments, ports, *extra)
        self._next_id = 0

    @property
    def config(self) -> Any:
        return self.scheduler.dllm_config

    def use(self, algorithm: str, **parameters: Any) -> None:
        from sglang.srt.dllm.algorithm import algo_name_to_cls

        self.config.algorithm_config = parameters
        self.scheduler.tp_worker.dllm_algorithm = algo_name_to_cls[algorithm](self.config)

    def ask(self, prompt: list[int], max_tokens: int) -> Any:
        """Puts a request into the queue and returns SGLang's Req."""
        from sglang.srt.managers.schedule_batch import Req
        from sglang.srt.sampling.sampling_params import SamplingParams

        self._next_id += 1
        request = Req(
            f"request-{self._next_id:04}",
            "",
            array("q", prompt),
            SamplingParams(max_new_tokens=max_tokens, ignore_eos=True),
            vocab_size=self.scheduler.model_config.vocab_size,
            dllm_config=self.config,
        )
        request.sampling_params.normalize(None)
        self.scheduler.init_req_max_new_tokens(request)
        self.scheduler._add_request_to_queue(request)
        return request

    def abort(self, request: Any) -> None:
        from sglang.srt.managers.io_struct import AbortReq

        self.scheduler.abort_request(AbortReq(rid=request.rid))

    def round(self) -> Any:
        """One turn of SGLang's loop; the batch that it ran, None if it was idle (and checked itself)."""
        scheduler = self.scheduler
        plan = scheduler.get_next_batch_to_run(
            running_batch=scheduler.running_batch, last_batch=scheduler.last_batch
        )
        scheduler.running_batch, batch = plan.running_batch, plan.batch_to_run
        if batch:
            scheduler.process_batch_result(batch, scheduler.run_batch(batch))
        else:
            scheduler.on_idle()
        scheduler.last_batch = batch
        return batch

    def run(self, requests: list[Any], each_round: Callable[[Any], None] = lambda batch: None) -> int:
        """Rounds until all have ended."""
        rounds = 0
        with torch.inference_mode():
            while not all(each.finished() for each in requests):
                each_round(self.round())
                rounds += 1
                assert rounds < 20_000, "the scheduler gets nowhere"
            self.settle()
        return rounds

    def settle(self) -> None:
        """Idles twice, so that SGLang looks for KV that was lost."""
        with torch.inference_mode():
            while self.round() is not None:
                pass
            self.round()

    def free_tokens(self) -> int:
        tree = self.scheduler.tree_cache
        return int(self.scheduler.token_to_kv_pool_allocator.available_size() + tree.evictable_size())

    def flush(self) -> None:
        assert self.scheduler.flush_cache()


def kv_of(engine: Engine, request: Any, tokens: int) -> torch.Tensor:
    """KV of a request's first tokens, [2 x layers, tokens, values]."""
    from worker.dllm.prefill.request import table_row

    pool = engine.scheduler.token_to_kv_pool_allocator.get_kvcache()
    slots = engine.scheduler.req_to_token_pool.req_to_token[table_row(request), :tokens].long()
    return torch.stack(
        [
            buffer(layer)[slots].reshape(tokens, -1)
            for layer in range(pool.layer_num)
            for buffer in (pool.get_key_buffer, pool.get_value_buffer)
        ]
    )


def _positional_ranks(scheduler: Any) -> bool:
    return "gpu_id" in scheduler.__init__.__wrapped__.__code__.co_varnames[:8]


def _publish(arguments: Any) -> None:
    from sglang.srt.managers.scheduler import publish

    try:
        from sglang.srt.runtime_context import SpawnRanks

        publish(arguments, role="scheduler", ranks=SpawnRanks(world_rank=0, dp_rank=None, gpu_id=0))
    except ImportError:
        publish(arguments, role="scheduler")
    os.environ.setdefault("SGLANG_BLOCK_NONZERO_RANK_CHILDREN", "1")
