"""How long one request may take."""

from __future__ import annotations

from dllm_stack.outcomes import ErrorCode, Problem


class TimeLimit:
    """Counts from a request's arrival. Of several, the shortest counts.

    Attributes:
        arrived, deadline: monotonic seconds, as the event loop counts too.
    """

    def __init__(self, arrived: float, seconds: float) -> None:
        self.arrived = arrived
        self.seconds = seconds
        self.deadline = arrived + seconds

    def shorten(self, seconds: float | None) -> None:
        if seconds is not None and seconds < self.seconds:
            self.seconds = seconds
            self.deadline = self.arrived + seconds

    def exceeded(self, what: str) -> Problem:
        """`what` the request did not do in time."""
        message = f"The request did not {what} within {self.seconds:g} s."
        return Problem(ErrorCode.DEADLINE_EXCEEDED, message)
