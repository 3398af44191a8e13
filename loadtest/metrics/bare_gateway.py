"""A gateway that measures, traces and logs nothing of its requests.

Only to be compared with: what is taken out here is what instrumentation costs.
"""

from __future__ import annotations

from typing import Any

from structlog import contextvars

from dllm_stack.settings import load
from gateway import answer, answering, gateway, main, record
from gateway.metrics import Metrics


class _Nothing:
    """Takes the place of what is called for each request or block."""

    def __init__(self, *_: object, **__: object) -> None: ...
    def add(self, *_: object) -> None: ...
    def finish(self) -> None: ...
    def close(self, error: str | None) -> None: ...
    def inc(self) -> None: ...
    def dec(self) -> None: ...


class _NoMetrics(Metrics):
    def __init__(self) -> None:
        super().__init__()
        self.redis: Any = None
        nothing: Any = _Nothing()
        self.open_requests.labels = lambda *_: nothing  # type: ignore[method-assign]

    def pace(self, kind: object) -> Any:
        return None


def run() -> None:
    for where, name, instead in (
        (answer, "Pace", _Nothing),
        (answering, "Request", _Nothing),
        (record.Record, "close", lambda *_: None),
        (gateway, "Metrics", _NoMetrics),
        (contextvars, "bind_contextvars", lambda **_: None),
    ):
        assert hasattr(where, name)
        setattr(where, name, instead)
    main.run(load())


if __name__ == "__main__":
    run()
