"""The speed of one attempt, measured and told to its request's trace."""

from __future__ import annotations

import time

from dllm_stack.messages import Claim, Took, Trace
from dllm_stack.outcomes import Outcome
from dllm_stack.tracing import Span, Tracer
from worker.metrics import WorkerMetrics
from worker.transcript import Piece

_NO_ERRORS = (Outcome.COMPLETED, Outcome.CANCELLED)


class Pace:
    """To be made when the claim comes; then `asks`, `add` for each block, `end`."""

    def __init__(self, metrics: WorkerMetrics, tracer: Tracer, claim: Claim) -> None:
        self._metrics = metrics
        self._tracer = tracer
        self._model = claim.job.pool
        self._claimed = self._asked = self._last = time.monotonic()
        self._blocks = 0
        self._attempt = tracer.start(
            "attempt",
            claim.job.trace,
            kind="consumer",
            attributes={"dllm.job": claim.job.id, "dllm.attempt": claim.attempt},
        )
        self._stage: Span = tracer.start("prompt", self._attempt.trace)

    def asks(self, prompt_tokens: int) -> Trace | None:
        """The engine is about to be asked. Returns what its spans belong to."""
        self._stage.end()
        self._asked = time.monotonic()
        self._stage = self._tracer.start(
            f"text_completion {self._model}",
            self._attempt.trace,
            kind="client",
            attributes={
                "gen_ai.operation.name": "text_completion",
                "gen_ai.provider.name": "sglang",
                "gen_ai.request.model": self._model,
                "gen_ai.usage.input_tokens": prompt_tokens,
            },
        )
        return self._stage.trace

    def add(self, piece: Piece) -> Took | None:
        """A block has come. Returns what the first one took."""
        now, work = time.monotonic(), piece.work
        self._metrics.committed(len(piece.token_ids), work)
        if self._stage.is_recorded:
            told = {"dllm.tokens": len(piece.token_ids)}
            told |= {"dllm.forwards": work.forwards, "dllm.steps": work.steps, "dllm.edits": work.edits}
            self._stage.event("block", told)
        took = None
        if self._blocks == 0:
            took = Took(self._asked - self._claimed, now - self._asked)
            self._metrics.began(took)
        else:
            self._metrics.went_on(now - self._last)
        self._blocks += 1
        self._last = now
        return took

    def end(self, how: str) -> None:
        """`how`: as `Run.execute` says."""
        error = None if how in _NO_ERRORS else how
        self._stage.end(error=error)
        self._attempt.set({"dllm.outcome": how})
        self._attempt.end(error=error)
