"""The gateway as a process."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from contextlib import ExitStack
from types import FrameType
from typing import Literal, NamedTuple

import structlog
import uvicorn
from fastapi import FastAPI

from dllm_stack import garbage
from dllm_stack import log as logs
from dllm_stack.keys import KeyFile, KeyFileError
from dllm_stack.settings import Listener, Settings
from dllm_stack.tracing import TracingError
from gateway.admin.app import create_app as create_admin
from gateway.admin.server import AdminServer
from gateway.app import create_app
from gateway.gateway import SHUTTING_DOWN, Gateway
from gateway.http.connection import Connection

LEAVE_S = 2  # for the last bytes after the drain
# Without an open request, after the last one. Its client may be about to send the next one on the same
# connection, which a stream that began before the drain has not told it to leave.
LINGER_S = 1.0
KEEP_ALIVE_S = 75  # longer than the 60 s after which common load balancers drop an idle connection

log = structlog.get_logger()


def run(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT; see `Server`.

    Raises:
        SystemExit: 2 when a port is taken, or its key file cannot be used. Why is then on stderr.
    """
    logs.configure(settings, "gateway")
    listener = _listen("gateway", settings.gateway)
    try:
        if settings.access.file is not None:
            KeyFile(settings.access.file).load()
    except KeyFileError as error:
        print(f"access.keys: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    try:
        app = create_app(settings)
    except TracingError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    gateway: Gateway = app.state.gateway
    with ExitStack() as stack:
        stack.enter_context(listener)
        admin = None
        if gateway.access.ring is not None:
            port = stack.enter_context(_listen("admin", settings.admin))
            admin = Admin(AdminServer(_config(create_admin(gateway), lifespan="off")), port)
        garbage.keep()
        Server(_config(app, lifespan="on"), gateway, admin).run([listener])


def _config(app: FastAPI, *, lifespan: Literal["on", "off"]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=Connection,
        ws="none",
        lifespan=lifespan,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=LEAVE_S,
    )


def _listen(group: str, settings: Listener) -> socket.socket:
    """
    Args:
        group: of the settings.

    Raises:
        SystemExit: 2 when the port is taken. Why is then on stderr.
    """
    host, port = settings.host, settings.port
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        print(f"{group}.port: {error.strerror or error}", file=sys.stderr)
        raise SystemExit(2) from None


class Admin(NamedTuple):
    server: AdminServer
    listener: socket.socket


class Server(uvicorn.Server):
    """Drains on the first signal: it goes on listening, so that its probe can say it is not ready and
    requests that still come get an answer, until the open requests are done or their time is up. A second
    signal ends them at once. The admin API, if there is one, is there as long as this is."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway, admin: Admin | None) -> None:
        super().__init__(config)
        self._gateway = gateway
        self._admin = admin
        self._serving_admin: asyncio.Task[None] | None = None
        self._drained_by: float | None = None
        self._busy_at = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            host, port, *_ = listener.getsockname()
            log.info("gateway listens", host=host, port=port)
        if self._admin is not None:
            self._serving_admin = asyncio.create_task(self._admin.server.serve([self._admin.listener]))
            host, port, *_ = self._admin.listener.getsockname()
            log.info("admin API listens", host=host, port=port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._admin is not None and self._serving_admin is not None:
            self._admin.server.should_exit = True
            await self._serving_admin
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        drain_s = 0.0 if self._gateway.draining else self._gateway.settings.gateway.drain_s
        self._gateway.leave(drain_s)
        self._drained_by = time.monotonic() + drain_s

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn ten times a second."""
        now, open_requests = time.monotonic(), self._gateway.ledger.open
        if open_requests:
            self._busy_at = now
        if self._drained_by is not None:
            if open_requests and now >= self._drained_by:
                log.warning("drain time is up", open_requests=len(open_requests))
                self._gateway.ledger.abandon(SHUTTING_DOWN)
                self.should_exit = True
            elif not open_requests and now >= min(self._busy_at + LINGER_S, self._drained_by):
                self.should_exit = True
        return await super().on_tick(counter)
