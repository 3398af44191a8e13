"""SGLang's scheduler and model runner as far as a round of decoding sees them; the model is plain torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import torch

from dllm_stack.decoding import EngineOptions
from tests.engine.reference import Reference


@dataclass(eq=False)
class FakeRequest:
    """What decoding touches of SGLang's Req."""

    origin_input_ids: list[int]
    options: EngineOptions
    max_tokens: int
    output_ids: list[int] = field(default_factory=list)
    dllm_algo_state: Any = None
    dllm_incomplete_ids: list[int] = field(default_factory=list)
    customized_info: dict[str, list[int]] | None = None
    rid: str = ""

    @property
    def sampling_params(self) -> Any:
        return SimpleNamespace(custom_params={"dllm": msgspec.to_builtins(self.options)})


class FakeScheduler:
    def __init__(
        self,
        model: Reference,
        run: Callable[[Any, Any, list[Any]], Any],
        begin: Callable[[FakeRequest, int], Any] = lambda request, start: None,
    ) -> None:
        """
        Args:
            run: an algorithm's, as SGLang calls it.
            begin: makes the state of a request's new block.
        """
        self.model, self.run, self.begin = model, run, begin
        self.size, self.mask_id = model.config["block_size"], model.config["mask_token_id"]

    def decode(self, requests: Sequence[FakeRequest]) -> None:
        """All of them in one batch; those that have finished make room for the others."""
        left = list(requests)
        while left:
            self._round(left)
            left = [request for request in left if len(request.output_ids) < request.max_tokens]

    def forward(self, batch: Any, pp_proxy_tensors: None = None) -> Any:
        rows = batch.input_ids.view(-1, self.size).tolist()
        full = torch.cat(
            [
                self.model.logits((request.origin_input_ids + request.output_ids)[:start] + row)
                for request, start, row in zip(batch.reqs, batch.extend_prefix_lens_cpu, rows, strict=True)
            ]
        )
        return SimpleNamespace(logits_output=SimpleNamespace(full_logits=full), can_run_graph=False)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _round(self, requests: list[FakeRequest]) -> None:
        starts, ids, fixed = [], [], []
        for request in requests:
            sequence = request.origin_input_ids + request.output_ids
            starts.append(len(sequence) // self.size * self.size)
            tail = sequence[starts[-1] :]
            ids += request.dllm_incomplete_ids or tail + [self.mask_id] * (self.size - len(tail))
            fixed.append([place < len(tail) for place in range(self.size)])
        batch = SimpleNamespace(
            reqs=requests,
            batch_size=len(requests),
            input_ids=torch.tensor(ids),
            extend_prefix_lens_cpu=starts,
            dllm_prompt_mask=torch.tensor(fixed),
        )
        states = [
            request.dllm_algo_state or self.begin(request, start)
            for request, start in zip(requests, starts, strict=True)
        ]
        _, rows, accepted, left, _ = self.run(self, batch, states)
        for request, row, tokens, state in zip(requests, rows, accepted, left, strict=True):
            request.dllm_algo_state = state
            request.dllm_incomplete_ids = [] if tokens else row
            if tokens:
                known = (len(request.origin_input_ids) + len(request.output_ids)) % self.size
                request.output_ids += row[known:]
