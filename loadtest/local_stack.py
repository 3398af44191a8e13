"""A `dllm-stack up` of one's own, for tests and measurements: started, looked into, stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from urllib.request import urlopen

import psutil

from dllm_stack.local.service import free_port, stop_with

READY = "Ctrl-C stops everything"
STOP_S = 240
START_S = 600  # engines start in half a minute; where many others run, it took four


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=60):
            return True
    except OSError:
        return False


class Served(NamedTuple):
    """A model's engine: its own address, and where its worker keeps what it prints."""

    url: str
    checkpoint: Path
    log: Path


class LocalStack:
    """Starts the stack on free ports and waits until it has printed its first answer.

    Args:
        until: another text to wait for.
        env: settings of the services, as environment variables.
    """

    def __init__(self, until: str = READY, **env: str) -> None:
        self._until = until
        self.port = free_port()
        self.gateway_url = f"http://127.0.0.1:{self.port}"
        ports = {"DLLM_GATEWAY__PORT": str(self.port), "DLLM_ROUTER__PORT": "0", "DLLM_WORKER__PORT": "0"}
        self._env = os.environ | ports | env
        self._output_file = Path(tempfile.mkstemp(prefix="up-", suffix=".out")[1])
        self._up: psutil.Popen
        self._began = 0.0

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        with self._output_file.open("wb") as output:
            self._up = psutil.Popen(
                [sys.executable, "-m", "dllm_stack.cli", "up"],
                env=self._env,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=stop_with(os.getpid()),
            )
        try:
            self.wait_for(self._until)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.start_s = time.monotonic() - self._began
        return self

    def wait_for(self, text: str) -> None:
        """Returns once `up` has printed it.

        Raises:
            RuntimeError: it ended before, or the time in which engines start is over.
        """
        while text not in self.output():
            if self._up.poll() is not None or time.monotonic() - self._began > START_S:
                raise RuntimeError(f"the stack did not start:\n{self.output()}")
            time.sleep(0.1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._output_file.unlink()

    def stop(self) -> int:
        """Ctrl-C; returns the exit status."""
        if self._up.poll() is None:
            self._up.send_signal(signal.SIGINT)
        try:
            status: int = self._up.wait(STOP_S)
        except psutil.TimeoutExpired:
            self.kill()
            raise
        return status

    def kill(self) -> None:
        """kill -9 of `up` alone."""
        self._up.kill()
        self._up.wait()

    def wait_for_workers(self) -> None:
        """Returns once all workers are ready for jobs.

        Raises:
            RuntimeError: one is not, after the time in which an engine starts.
        """
        began = time.monotonic()
        while not all(_answers(f"{url}/readyz") for url in self.worker_urls):
            if time.monotonic() - began > START_S:
                raise RuntimeError(f"a worker is not ready:\n{self.output()}")
            time.sleep(0.1)

    def output(self) -> str:
        """What `up` has printed so far."""
        return self._output_file.read_text(errors="replace")

    @property
    def redis_url(self) -> str:
        found = re.search(r"redis://\S+", self.output())
        assert found is not None
        return found[0]

    @property
    def worker_urls(self) -> list[str]:
        """Of the workers that have been ready once."""
        return re.findall(r"^worker\S* +ready +(http://[\d.:]+)", self.output(), re.MULTILINE)

    @property
    def worker_url(self) -> str:
        """Of the first one."""
        return self.worker_urls[0]

    def service(self, name: str) -> psutil.Process:
        """The process of router, worker (the first one), gateway or valkey."""
        return self.services(name)[0]

    def services(self, name: str) -> list[psutil.Process]:
        """In the order in which they were first ready."""
        found = [
            child
            for child in self._up.children()
            if child.name() == f"{name}-server" or name in child.cmdline()[2:]  # python -m MODULE ARGUMENT
        ]
        if not found:
            raise LookupError(name)
        places = {url.rpartition(":")[2]: place for place, url in enumerate(self.worker_urls)}
        return sorted(found, key=lambda child: places.get(child.environ().get("DLLM_WORKER__PORT", ""), 0))

    def engine(self) -> psutil.Process:
        """SGLang's launcher of the first worker, whose children are the scheduler and the detokenizer."""
        return _engine_of(self.service("worker"))

    @property
    def engine_urls(self) -> list[str]:
        """Of each worker's engine."""
        engines = map(_engine_of, self.services("worker"))
        return [f"http://127.0.0.1:{_argument(engine, '--port')}" for engine in engines]

    @property
    def engine_url(self) -> str:
        """Of the first one."""
        return self.engine_urls[0]

    @property
    def served(self) -> dict[str, Served]:
        """By model."""
        engines = [_engine_of(worker) for worker in self.services("worker")]
        return {
            _argument(engine, "--served-model-name"): Served(
                f"http://127.0.0.1:{_argument(engine, '--port')}",
                Path(_argument(engine, "--model-path")),
                Path(_argument(engine, "--dllm-algorithm-config")).parent / "engine.log",
            )
            for engine in engines
        }

    @property
    def checkpoints(self) -> list[str]:
        """The folders of the models served, with their tokenizers."""
        return [_argument(_engine_of(worker), "--model-path") for worker in self.services("worker")]

    @property
    def checkpoint(self) -> str:
        """Of the first one."""
        return self.checkpoints[0]

    def processes(self) -> dict[str, psutil.Process]:
        """Every process by a name: the services, `up`, and each of the engine's."""
        found = {"up": psutil.Process(self._up.pid)}
        found |= {name: self.service(name) for name in ("router", "gateway", "valkey")}
        for place, worker in enumerate(self.services("worker")):
            engine = _engine_of(worker)
            of = f" {place + 1}" if place else ""
            found |= {f"worker{of}": worker, f"engine{of}": engine}
            for number, child in enumerate(engine.children(recursive=True)):
                found[f"engine{of}, child {number} ({child.name()})"] = child
        return found


def _argument(engine: psutil.Process, name: str) -> str:
    arguments = engine.cmdline()
    return arguments[arguments.index(name) + 1]


def _engine_of(worker: psutil.Process) -> psutil.Process:
    for child in worker.children():
        if "sglang.launch_server" in child.cmdline():
            return child
    raise LookupError("engine")
