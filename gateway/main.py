"""The gateway as a process."""

from __future__ import annotations

import time
from types import FrameType
from typing import Any

import structlog
import uvicorn

from dllm_stack import log as logs
from dllm_stack.settings import Settings
from gateway.app import create_app
from gateway.gateway import SHUTTING_DOWN, Gateway

LEAVE_S = 2  # for the last bytes after the drain
KEEP_ALIVE_S = 75  # longer than the 60 s after which common load balancers drop an idle connection

log = structlog.get_logger()


def run(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT; see `Server`."""
    logs.configure(settings, "gateway")
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        host=settings.gateway.host,
        port=settings.gateway.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=LEAVE_S,
    )
    Server(config, app.state.gateway).run()


class Server(uvicorn.Server):
    """Drains on the first signal: it goes on listening, so that its probe can say it is not ready and
    new requests get an answer, until the open requests are done or their time is up. A second signal
    ends them at once."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self._gateway = gateway
        self._drained_by: float | None = None

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets)
        log.info("gateway listens", host=self.config.host, port=self.config.port)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        drain_s = 0.0 if self._gateway.draining else self._gateway.settings.gateway.drain_s
        self._gateway.draining = True
        self._drained_by = time.monotonic() + drain_s

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second."""
        if self._drained_by is not None:
            open_requests = self._gateway.ledger.open
            if open_requests and time.monotonic() >= self._drained_by:
                log.warning("drain time is up", open_requests=len(open_requests))
                self._gateway.ledger.abandon(SHUTTING_DOWN)
                self.should_exit = True
            elif not open_requests:
                self.should_exit = True
        return await super().on_tick(counter)
