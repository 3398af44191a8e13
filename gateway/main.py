"""The gateway as a process."""

from __future__ import annotations

import socket
import sys
import time
from types import FrameType

import structlog
import uvicorn

from dllm_stack import log as logs
from dllm_stack.keys import KeyFile, KeyFileError
from dllm_stack.settings import Settings
from gateway.app import create_app
from gateway.connection import Connection
from gateway.gateway import SHUTTING_DOWN, Gateway

LEAVE_S = 2  # for the last bytes after the drain
KEEP_ALIVE_S = 75  # longer than the 60 s after which common load balancers drop an idle connection

log = structlog.get_logger()


def run(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT; see `Server`.

    Raises:
        SystemExit: 2 when its port is taken, or its key file cannot be used. Why is then on stderr.
    """
    logs.configure(settings, "gateway")
    try:
        listener = _listen(settings.gateway.host, settings.gateway.port)
    except OSError as error:
        print(f"gateway.port: {error.strerror or error}", file=sys.stderr)
        raise SystemExit(2) from None
    try:
        if settings.access.file is not None:
            KeyFile(settings.access.file).load()
    except KeyFileError as error:
        print(f"access.keys: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=Connection,
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=LEAVE_S,
    )
    with listener:
        Server(config, app.state.gateway).run([listener])


def _listen(host: str, port: int) -> socket.socket:
    """Raises OSError."""
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


class Server(uvicorn.Server):
    """Drains on the first signal: it goes on listening, so that its probe can say it is not ready and
    new requests get an answer, until the open requests are done or their time is up. A second signal
    ends them at once."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self._gateway = gateway
        self._drained_by: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            host, port, *_ = listener.getsockname()
            log.info("gateway listens", host=host, port=port)

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
