"""What a request asks of its decoding, and what its present block has come to."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dllm_stack.decoding import Decision, EngineOptions, Sampling
from worker.dllm.algorithms.algorithm import Carried
from worker.dllm.algorithms.table import AlgorithmTable
from worker.dllm.settings import NAME, DecoderSettings

FORWARDS, STEPS, EDITS = "dllm_forwards", "dllm_steps", "dllm_edits"
"""Keys of an answer's meta_info. Each holds a number for every token of the answer: what a block has cost
stands at its first token, and 0 at the others, so that the sum over what has arrived is right however the
answer is cut."""


class RequestCheck:
    """What an engine refuses of a request's `custom_params`, before it decodes anything."""

    def __init__(self, config: Any) -> None:
        """
        Args:
            config: SGLang's DllmConfig.

        Raises:
            ValueError: the config is wrong.
        """
        self._settings = DecoderSettings.read(config.algorithm_config) if config.algorithm == NAME else None
        self._table = AlgorithmTable(self._settings.algorithms if self._settings else {})

    def problem(self, custom_params: Any) -> str | None:
        """Why they cannot be honoured, with the field's name; None: they can."""
        if self._settings is None:
            if isinstance(custom_params, dict) and "dllm" in custom_params:
                return f"custom_params.dllm: this engine decodes all requests alike, without {NAME}"
            return None
        try:
            options = read(custom_params)
        except ValueError as error:
            return f"custom_params.{error}"
        wrong = self._table.problem(options, self._settings.default)
        return None if wrong is None else f"custom_params.dllm.{wrong}"


def read(custom_params: Any) -> EngineOptions:
    """
    Raises:
        ValueError: a sentence that begins with the field's name.
    """
    if not isinstance(custom_params, dict) or "dllm" not in custom_params:
        return EngineOptions()
    try:
        return msgspec.convert(custom_params["dllm"], EngineOptions)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$.")
        name = f"dllm.{path.rstrip('`')}" if path else "dllm"
        raise ValueError(f"{name}: {reason[0].lower()}{reason[1:]}") from None


@dataclass(eq=False)
class BlockState:
    """One block of one request while it is decoded. SGLang keeps it with the request from round to round.

    Attributes:
        request: SGLang's Req.
        start: position of the block's first token in the sequence.
        known: tokens at its begin that are the prompt's, or were committed before.
        masked: positions still to be committed.
        forwards, steps, edits: see the keys above.
        carried: the algorithm's own tensors, [1, ...] each; empty before the first step.
    """

    request: Any
    decision: Decision
    sampling: Sampling
    start: int
    known: int
    masked: int
    forwards: int = 0
    steps: int = 0
    edits: int = 0
    finished: bool = False
    carried: Carried = field(default_factory=dict)

    @classmethod
    def begin(cls, request: Any, default: Decision, block_size: int, start: int) -> BlockState:
        options = read(request.sampling_params.custom_params)
        committed = len(request.origin_input_ids) + len(request.output_ids)
        known = min(block_size, committed - start)
        return cls(
            request, options.decision or default, options.sampling, start, known, masked=block_size - known
        )

    def publish(self, block_size: int) -> None:
        """Adds the finished block's numbers to the answer that SGLang sends."""
        tokens = block_size - self.known
        if not tokens:
            return
        if self.request.customized_info is None:
            self.request.customized_info = {FORWARDS: [], STEPS: [], EDITS: []}
        info = self.request.customized_info
        for key, count in ((FORWARDS, self.forwards), (STEPS, self.steps), (EDITS, self.edits)):
            info[key] += [count, *array("q", bytes(8 * (tokens - 1)))]
