"""Decodes each request of a batch as it asks, several denoise steps a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from worker.dllm.algorithms.table import AlgorithmTable
from worker.dllm.batch import CHANGED, DONE, EDITS, IDS, MASKED, Batch
from worker.dllm.report import Report
from worker.dllm.requests import BlockState
from worker.dllm.settings import DecoderSettings

_LEAVE_TOGETHER = 8
_PATIENCE = 3
"""A round ends when one of so many rows has finished, or when one that has finished has waited for so many
steps. To wait costs a finished row a step, and saves all rows the scheduler's work between two rounds: a
fifth of a step of 32 rows, on an H200."""

_FEW_ROWS = 4
"""Below it a step without prompts is short beside one with them."""


class Decoder:
    """Knows nothing of a request: what it asks and where its block stands is in its BlockState."""

    def __init__(self, settings: DecoderSettings, block_size: int, mask_id: int) -> None:
        """
        Raises:
            ValueError: the default, or a user's algorithm, cannot be used.
        """
        self.settings = settings
        self.is_wanted: Callable[[], bool] | None = None
        """Whether the scheduler has something to do besides, and a round should end; see `inbox`."""
        self.compare: Callable[[Sequence[BlockState], Report], None] | None = None
        """After each step, where ranks are compared; see `ranks`."""
        self._block_size, self._mask_id = block_size, mask_id
        self._table = AlgorithmTable(settings.algorithms)
        try:
            self._table.check(settings.default)
        except ValueError as error:
            raise ValueError(f"--dllm-algorithm-config: default.{error}") from None

    def begin(self, request: Any, start: int) -> BlockState:
        """Of a request's next block, which begins at position `start`."""
        return BlockState.begin(request, self.settings.default, self._block_size, start)

    def run(self, model_runner: Any, forward_batch: Any, states: Sequence[BlockState]) -> Any:
        """One round: denoise steps until enough rows have finished, at most `steps_per_round`.

        While the device computes a forward, the host reads what the step before it has come to. A row
        without masks may be done, which only its step can say, so then the host waits for that; unless all
        rows are known to be: then the last forward, which stores their KV, is not waited for at all.

        Returns:
            What SGLang's scheduler expects of an algorithm that lets rows leave one by one: the output of
            the last forward, each row's token ids, tokens committed and state, and whether a graph ran.
        """
        ids = forward_batch.input_ids
        batch = Batch(states, self._table, self._block_size, self._mask_id, ids.device)
        enough = max(1, len(states) // _LEAVE_TOGETHER)
        most = self.settings.steps_per_round
        if getattr(model_runner, "carries_prompts", False):
            # Only the first forward carries prompts along. A step of few rows without them is so short that
            # it hardly delays the prompts, and is half of what running answers wait for.
            most = 2 if len(states) < _FEW_ROWS else 1
        output = model_runner.forward(forward_batch, pp_proxy_tensors=None)
        report, waited = None, 0
        for step in range(1, most + 1):
            if report is not None and self._all_filled(states):
                _note_stored(states)
                break
            report = batch.step(ids, output.logits_output.full_logits)
            if self.compare is not None:
                self.compare(states, report)
            goes_on = step < most and waited < _PATIENCE and not (self.is_wanted and self.is_wanted())
            waited += any(state.finished for state in states)
            certain = goes_on and sum(state.masked == 0 for state in states) < enough
            if not certain:
                _note(states, report)
                finished = sum(state.finished for state in states)
                if not goes_on or finished >= enough or finished == len(states):
                    break
            if output.can_run_graph:
                # Attention is planned already, for the same rows.
                forward_batch.mark_forward_metadata_ready()
            output = model_runner.forward(forward_batch, pp_proxy_tensors=None)
            if certain:
                _note(states, report)
        assert report is not None
        batch.hand_back()
        for state in states:
            if state.finished:
                state.publish(self._block_size)
        return (
            output.logits_output,
            report.read(slice(IDS, None)),
            [self._block_size if state.finished else 0 for state in states],
            [None if state.finished else state for state in states],
            output.can_run_graph,
        )

    def _all_filled(self, states: Sequence[BlockState]) -> bool:
        return all(
            state.finished or (state.masked == 0 and self._table[state.decision.algorithm].only_fills)
            for state in states
        )


def _note(states: Sequence[BlockState], report: Report) -> None:
    for state, numbers in zip(states, report.read(slice(IDS)), strict=True):
        if state.finished:
            continue
        state.forwards += 1
        state.finished = bool(numbers[DONE])
        state.masked = numbers[MASKED]
        state.steps += numbers[CHANGED]
        state.edits += numbers[EDITS]


def _note_stored(states: Sequence[BlockState]) -> None:
    for state in states:
        state.forwards += not state.finished
        state.finished = True
