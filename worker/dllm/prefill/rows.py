"""The worker's side: a forward's requests cut into rows of one block.

The decoding algorithm never hears of prompts: it is given a batch of the denoising rows, and a model runner
whose first forward carries the prompt rows along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from worker.dllm.prefill import limits, logits, request
from worker.dllm.prefill.row_batch import Row, of_rows

TARGET = "sglang.srt.managers.tp_worker.TpModelWorker._forward_batch_generation_dllm"


def forward_in_rows(
    original: Callable[[Any, Any, Any], Any], worker: Any, forward_batch: Any, batch: Any = None
) -> Any:
    """AROUND hook."""
    if batch is None or not limits.of(batch.dllm_config):
        return original(worker, forward_batch, batch)
    prompts = [request.is_prompt(each) for each in batch.reqs]
    if not any(prompts):
        return original(worker, forward_batch, batch)
    return _Forward(worker, forward_batch, batch.reqs, prompts).run()


class _Forward:
    def __init__(self, worker: Any, forward_batch: Any, requests: Sequence[Any], prompts: list[bool]) -> None:
        self.algorithm = worker.dllm_algorithm
        self.block = worker.dllm_algorithm.block_size
        self.runner = worker.model_runner
        self.batch = forward_batch
        self.requests = requests
        self.denoising = [i for i, prompt in enumerate(prompts) if not prompt]
        self.order = self.denoising + [i for i, prompt in enumerate(prompts) if prompt]

    def run(self) -> Any:
        """A GenerationBatchResult over the requests, as if each had been one row."""
        from sglang.srt.managers.utils import GenerationBatchResult

        everything = self._all_rows()
        if not self.denoising:
            with logits.only_first(0):
                out = self.runner.forward(everything, pp_proxy_tensors=None)
            ids, accepted, states = self._prompts_only()
            return GenerationBatchResult(
                logits_output=out.logits_output,
                next_token_ids=ids,
                accept_length_per_req_cpu=accepted,
                dllm_algo_state=states,
                can_run_cuda_graph=out.can_run_graph,
            )
        states = [self.requests[i].dllm_algo_state for i in self.denoising] if self.algorithm.fdfo else None
        output, ids, accepted, states, graph = self.algorithm.run(
            _PromptsAlong(self.runner, everything), self._denoising_rows(everything), states
        )
        ids, accepted, states = self._among_prompts(ids, accepted, states)
        return GenerationBatchResult(
            logits_output=output,
            next_token_ids=ids,
            accept_length_per_req_cpu=accepted,
            dllm_algo_state=states,
            can_run_cuda_graph=graph,
        )

    def _all_rows(self) -> Any:
        """The ForwardBatch of all rows, those that are denoised first."""
        lengths = [request.extent_end(each) - request.prefix_length(each) for each in self.requests]
        for i in self.denoising:
            if lengths[i] != self.block:
                raise RuntimeError(
                    f"request {self.requests[i].rid} is to denoise {lengths[i]} tokens at once"
                )
        ids, places = self.batch.input_ids, self.batch.out_cache_loc
        if self.order != sorted(self.order):
            ids, places = (_in_order(tensor, lengths, self.order) for tensor in (ids, places))
        rows = [
            Row(request.table_row(self.requests[i]), request.prefix_length(self.requests[i]) + start, i)
            for i in self.order
            for start in range(0, lengths[i], self.block)
        ]
        return of_rows(rows, ids, places, self.batch, self.block, self._prompt_mask(len(rows)))

    def _prompt_mask(self, rows: int) -> Tensor | None:
        """0.5.23: which tokens are committed whatever their id, [rows, block]."""
        mask: Tensor | None = getattr(self.batch, "dllm_prompt_mask", None)
        if mask is None:
            return None
        known = mask.new_ones(rows - len(self.denoising), self.block)
        return torch.cat([mask[self.denoising], known])

    def _denoising_rows(self, everything: Any) -> Any:
        count, tokens = len(self.denoising), len(self.denoising) * self.block
        prefixes = everything.extend_prefix_lens_cpu[:count]
        rows = [
            Row(request.table_row(self.requests[i]), prefix, i)
            for i, prefix in zip(self.denoising, prefixes, strict=True)
        ]
        mask = getattr(everything, "dllm_prompt_mask", None)
        return of_rows(
            rows,
            everything.input_ids[:tokens],
            everything.out_cache_loc[:tokens],
            self.batch,
            self.block,
            None if mask is None else mask[:count],
        )

    def _prompts_only(self) -> tuple[list[Any], list[int] | None, list[Any] | None]:
        if not self.algorithm.fdfo:
            return [], None, None
        count = len(self.requests)
        return [self._last_block(each) for each in self.requests], [self.block] * count, [None] * count

    def _among_prompts(
        self, ids: list[Any], accepted: list[int] | None, states: list[Any] | None
    ) -> tuple[list[Any], list[int] | None, list[Any] | None]:
        """The algorithm's results put back among those of the prompts, whose blocks are accepted whole."""
        count = len(self.requests)
        if accepted is None:  # lockstep: a list of the new tokens of each request
            all_ids: list[Any] = [torch.empty(0, dtype=torch.int64)] * count
            for i, tokens in zip(self.denoising, ids, strict=True):
                all_ids[i] = tokens
            return all_ids, None, None
        all_ids = [self._last_block(each) for each in self.requests]
        all_accepted, all_states = [self.block] * count, [None] * count
        for j, i in enumerate(self.denoising):
            all_ids[i], all_accepted[i] = ids[j], accepted[j]
            all_states[i] = None if states is None else states[j]
        return all_ids, all_accepted, all_states

    def _last_block(self, each: Any) -> list[int]:
        end = request.extent_end(each)
        last: list[int] = each.full_untruncated_fill_ids[end - self.block : end].tolist()
        return last


class _PromptsAlong:
    """The model runner as the algorithm sees it."""

    # Asked by an algorithm that plans attention once for several forwards: the first of this runner's was
    # planned for more rows than the algorithm's batch has.
    carries_prompts = True

    def __init__(self, runner: Any, everything: Any) -> None:
        self._runner = runner
        self._everything = everything
        self._planned = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def forward(self, batch: Any, pp_proxy_tensors: Any = None, **options: Any) -> Any:
        """`batch` is that of the denoising rows; its input ids are a view of those of all rows."""
        if self._everything is None:
            if not self._planned:
                # Whatever the algorithm has marked, attention was planned for all rows until now.
                batch.forward_metadata_ready = False
                self._planned = True
            return self._runner.forward(batch, pp_proxy_tensors=pp_proxy_tensors, **options)
        everything, self._everything = self._everything, None
        tokens = len(batch.input_ids)
        with logits.only_first(tokens):
            out = self._runner.forward(everything, pp_proxy_tensors=pp_proxy_tensors, **options)
        out.logits_output.full_logits = out.logits_output.full_logits[:tokens]
        return out


def _in_order(tensor: Tensor, lengths: list[int], order: list[int]) -> Tensor:
    pieces = tensor.split(lengths)
    return torch.cat([pieces[i] for i in order])
