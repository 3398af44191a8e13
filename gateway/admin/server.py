"""The admin API's own server, in the gateway's process and event loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn


class AdminServer(uvicorn.Server):
    """Leaves signals to the gateway's server, which starts and stops it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
