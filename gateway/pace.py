"""The speed of one answer, measured and told to its request's trace. Times are monotonic seconds.

Not the event loop's: uvloop's `time` counts whole milliseconds, and stands still while something is done.
"""

from __future__ import annotations

from dataclasses import dataclass

from dllm_stack.messages import Trace
from dllm_stack.tracing import OFF, Span, Tracer
from gateway.metrics import PaceSeries
from gateway.ticket import Arrival


@dataclass(frozen=True)
class Request:
    """What the answers of one request have in common.

    Attributes:
        arrived: when it did.
        trace: what their spans belong to.
    """

    series: PaceSeries
    arrived: float
    tracer: Tracer = OFF
    trace: Trace | None = None

    @property
    def exemplar(self) -> str | None:
        return self.trace.id if self.trace is not None and self.trace.is_sampled else None


class Pace:
    """
    Args:
        is_first: of its prompt's answers, so that the prompt is counted once.
    """

    def __init__(self, request: Request, *, is_first: bool) -> None:
        self._series = request.series
        self._request = request
        self._exemplar = request.exemplar
        self._is_first = is_first
        self._first = self._last = request.arrived
        self._chunks = 0
        self._tokens = 0
        self._relay: Span | None = None

    def add(self, arrival: Arrival, admitted: float, seen: float) -> None:
        """Counts a block.

        Args:
            admitted: when its job was sent to the queue.
            seen: when it was about to be sent to the client; of an answer that is not streamed, when it came.
        """
        tokens, at = len(arrival.block.token_ids), arrival.at
        if tokens == 0:
            return
        if self._chunks == 0:
            self._begin(arrival, admitted, seen)
        else:
            gap = at - self._last
            self._series.gap.add(gap, trace_id=self._exemplar)
            self._series.itl.add(gap / tokens, tokens)
        self._series.chunk_tokens.add(tokens)
        if self._relay is not None:
            self._relay.event("block", {"dllm.tokens": tokens}, at=at)
        self._chunks += 1
        self._tokens += tokens
        self._last = at

    def finish(self) -> None:
        """The answer is complete."""
        if self._chunks > 1:
            self._series.tpot.add((self._last - self._first) / (self._tokens - 1))

    def close(self, error: str | None) -> None:
        """Nothing more comes, whether the answer is complete or not."""
        if self._relay is not None:
            self._relay.end(error=error)

    def _begin(self, arrival: Arrival, admitted: float, seen: float) -> None:
        request, block, passed = self._request, arrival.block, arrival.passed
        self._first = arrival.at
        self._series.ttft.add(seen - request.arrived, trace_id=self._exemplar)
        if self._is_first:
            self._series.prompt_tokens.inc(block.prompt_tokens)
        if request.trace is not None:
            self._relay = request.tracer.start("relay", request.trace, began=arrival.at)
        if passed is None or (took := block.took) is None:
            return
        parts = (
            admitted - request.arrived,
            passed.waiting_s,
            passed.running_s - took.prompt_s - took.engine_s,
            took.prompt_s,
            took.engine_s,
            seen - admitted - passed.waiting_s - passed.running_s,
        )
        for part, seconds in zip(self._series.parts, parts, strict=True):
            part.add(max(0.0, seconds))  # two clocks do not tick quite alike
