"""One child process of `up`: started, watched, restarted, stopped."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_HURRY_S = 10.0
_libc = ctypes.CDLL(None, use_errno=True)


class Service:
    """A command whose output goes to `log`.

    Args:
        env: on top of the environment of `up`.
        stop_s: how long it may take to end by itself.
    """

    def __init__(self, name: str, argv: list[str], *, env: dict[str, str], log: Path, stop_s: float) -> None:
        self.name = name
        self.log = log
        self._argv = argv
        self.environment = os.environ | env
        self._stop_s = stop_s
        self._process: asyncio.subprocess.Process | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv,
                env=self.environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Out of the terminal's process group: Ctrl-C reaches only `up`, which stops its
                # services in order. Should `up` itself be killed, the kernel stops them.
                start_new_session=True,
                preexec_fn=stop_with(os.getpid()),
            )

    async def wait(self) -> int:
        """Returns the exit status once the process has ended; -N for signal N."""
        assert self._process is not None
        return await self._process.wait()

    async def stop(self, hurry: asyncio.Event) -> None:
        """SIGTERM, and SIGKILL if that is not enough within `stop_s`.

        Args:
            hurry: once it is set, a second signal tells the service to drop what it still waits for.
        """
        if self._process is None or not self.running:
            return
        self._process.terminate()
        ended = asyncio.create_task(self._process.wait())
        hurried = asyncio.create_task(hurry.wait())
        await asyncio.wait({ended, hurried}, timeout=self._stop_s, return_when=asyncio.FIRST_COMPLETED)
        if hurried.done() and self.running:
            # Not SIGTERM again, which could merge with the one before.
            self._process.send_signal(signal.SIGINT)
            await asyncio.wait({ended}, timeout=min(_HURRY_S, self._stop_s))
        hurried.cancel()
        if self.running:
            self._process.kill()
        await ended

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def stop_with(parent: int) -> Callable[[], None]:
    """To run in a child between fork and exec: SIGTERM, once its parent is gone."""

    def tie() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before it was tied to
            os._exit(1)

    return tie


def free_port() -> int:
    """A port of 127.0.0.1 that nobody else is given within the next minute.

    A connection through it was closed, which the kernel remembers for so long: meanwhile it hands the port
    to nobody who asks for any, and lets those listen on it who ask for it, with SO_REUSEADDR, as servers do.
    """
    with socket.socket() as server, socket.socket() as client:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        client.connect(server.getsockname())
        accepted, _ = server.accept()
        accepted.close()  # the side that closes first remembers
        port: int = server.getsockname()[1]
        return port


def listen(host: str, port: int) -> socket.socket:
    """Raises OSError when a service could not listen there."""
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
