"""A fleet whose processes' CPU time is read."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec

from loadtest.fleet import Fleet
from loadtest.hotpath.sampled import Stack

PACE = ["--slots", "64", "--block-ms", "20", "--prefill-ms", "0"]
SERVICES = ("gateway", "worker", "router")
PROCESSES = (*SERVICES, "valkey")


class Stand(Fleet):
    """One process of each kind.

    Args:
        code: a folder with another state of the code, to be compared with; None: this one.
    """

    def __init__(self, code: Path | None = None, *, sampled: bool = False) -> None:
        super().__init__(pace=PACE, env=_only(code) if code else {})
        self._samples: dict[str, Path] = {}
        if sampled:
            for service in SERVICES:
                file = self._samples[service] = self.folder / f"{service}.samples"
                argv = [sys.executable, "-m", "loadtest.hotpath.sampled", service, str(file)]
                self.members[f"{service}-0"].runs(argv)

    def cpu_s(self) -> dict[str, float]:
        """That each process has used so far, this one, which is the clients', among them."""
        pids = {name.removesuffix("-0"): member.pid for name, member in self.members.items()}
        return {name: _cpu_s(pid) for name, pid in (pids | {"clients": os.getpid()}).items()}

    def begin(self) -> None:
        """From now on samples are taken."""
        self._signal(signal.SIGUSR1)

    async def samples(self) -> dict[str, list[tuple[Stack, int]]]:
        """Those since `begin`, of each service."""
        self._signal(signal.SIGUSR2)
        while not all(file.exists() for file in self._samples.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return {
            service: msgspec.json.decode(file.read_bytes(), type=list[tuple[Stack, int]])
            for service, file in self._samples.items()
        }

    def _signal(self, number: signal.Signals) -> None:
        for service in self._samples:
            os.kill(self.members[f"{service}-0"].pid, number)


def _only(code: Path) -> dict[str, str]:
    """Has Python take the services from there, and not from the folder it is started in."""
    return {"PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"}


def _cpu_s(pid: int) -> float:
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9
