"""One child process of `up`: started, watched, restarted, stopped."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Service:
    """`module` run by this Python with `arguments`; its output goes to `log`."""

    def __init__(
        self, name: str, module: str, *arguments: str, env: dict[str, str], log: Path, stop_s: float
    ) -> None:
        self.name = name
        self.log = log
        self._argv = [sys.executable, "-m", module, *arguments]
        self._env = os.environ | env
        self._stop_s = stop_s
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv,
                env=self._env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Out of the terminal's process group: Ctrl-C reaches only `up`, which stops its
                # services in order. Should `up` itself be killed, the kernel stops them.
                start_new_session=True,
                preexec_fn=_stop_with_parent,
            )

    async def wait(self) -> int:
        """Returns the exit status once the process has ended; -N for signal N."""
        assert self._process is not None
        return await self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL if that is not enough within `stop_s` seconds."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), self._stop_s)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def _stop_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def port_is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
