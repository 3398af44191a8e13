"""One SGLang server with block decoding, of our own, for as long as it is asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dllm_stack.local.service import free_port
from models.demo.agreement import plain_kernels
from models.demo.agreement import plugins as engine_plugins
from worker import cpu

Device = Literal["cpu", "cuda"]
DType = Literal["float32", "bfloat16"]

_ROOT = Path(__file__).resolve().parents[3]
# Of all prompts and their answers together, with room to spare.
_KV_TOKENS = 16_384
# SGLang will not start where less is left; _KV_TOKENS is what bounds what it takes.
_MEM_FRACTION = 0.5
# The first request on a GPU compiles kernels.
_REQUEST_S = 120


class EngineError(Exception):
    """The engine did not start, or did not answer."""


@dataclass(frozen=True)
class Setup:
    """How the engine runs.

    Attributes:
        threshold: of LowConfidence.
        attention_backend: one of SGLang's; only flashinfer uses CUDA graphs, and it cannot do float32.
        slots: requests that it runs at once.
        start_s: how long it may take to start.
    """

    checkpoint: Path
    device: Device
    dtype: DType
    attention_backend: str
    threshold: float
    slots: int
    start_s: float

    @property
    def plain_kernels(self) -> bool:
        return self.device == "cuda" and self.dtype == "float32"

    @property
    def cuda_graphs(self) -> bool:
        return self.attention_backend == "flashinfer"

    def command(self, port: int, folder: Path) -> list[str]:
        algorithm = folder / "algorithm.yaml"
        algorithm.write_text(f"threshold: {self.threshold}\n", "utf-8")
        graphs = ["--cuda-graph-backend-prefill", "disabled"]
        if not self.cuda_graphs:
            graphs += ["--cuda-graph-backend-decode", "disabled"]
        return [
            *(sys.executable, "-m", "sglang.launch_server"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--model-path", str(self.checkpoint), "--trust-remote-code"),
            *("--device", self.device, "--dtype", self.dtype),
            *("--attention-backend", self.attention_backend, *(graphs if self.device == "cuda" else [])),
            *("--dllm-algorithm", "LowConfidence", "--dllm-algorithm-config", str(algorithm)),
            *("--max-running-requests", str(self.slots), "--max-total-tokens", str(_KV_TOKENS)),
            *("--mem-fraction-static", str(_MEM_FRACTION)),
            # So that no answer leans on the KV cache of one before it.
            *("--disable-radix-cache", "--page-size", "1"),
            "--skip-server-warmup",
        ]

    def environment(self, folder: Path) -> dict[str, str]:
        """Ours and what the engine needs: the plugins, also where this package is not installed."""
        plugins = {"dllm_stack": "worker.dllm.plugin:register"}
        # What SGLang marks for torch.compile would be compiled in the middle of the first requests.
        more = {"TORCHDYNAMO_DISABLE": "1"}
        if self.device == "cpu":
            more |= cpu.engine_environment()
        if self.plain_kernels:
            plugins["plain_kernels"] = f"{plain_kernels.__name__}:{plain_kernels.register.__name__}"
            more |= plain_kernels.ENVIRONMENT
        path = more.get("PYTHONPATH") or os.environ.get("PYTHONPATH")
        site = [str(engine_plugins.write(folder / "site", plugins)), str(_ROOT)]
        return os.environ | more | {"PYTHONPATH": os.pathsep.join([*site, *([path] if path else [])])}


class Engine:
    def __init__(self, url: str) -> None:
        self._url = url

    def answers(self, prompts: Sequence[list[int]], max_tokens: int) -> list[list[int]]:
        """The answers' ids, all prompts in one batch.

        Raises:
            EngineError
        """
        body = {
            "input_ids": list(prompts),
            "sampling_params": {"temperature": 0, "max_new_tokens": max_tokens},
        }
        answered = self._call("/generate", json.dumps(body).encode(), _REQUEST_S)
        return [list(each["output_ids"]) for each in answered]

    def information(self) -> dict[str, Any]:
        """What it says of itself. Raises EngineError."""
        found: dict[str, Any] = self._call("/server_info", None, 30)
        return found

    def is_up(self) -> bool:
        try:
            self._call("/model_info", None, 5)
        except EngineError:
            return False
        return True

    def _call(self, path: str, body: bytes | None, within_s: float) -> Any:
        request = urllib.request.Request(self._url + path, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=within_s) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise EngineError(f"{path}: {error}: {error.read().decode(errors='replace')}") from error
        except OSError as error:
            raise EngineError(f"{path}: {error!r}") from error


@contextmanager
def started(setup: Setup, folder: Path) -> Iterator[Engine]:
    """An engine that answers; it is killed at the end.

    Args:
        folder: empty; gets the engine's files, and its output in engine.log.

    Raises:
        EngineError: it did not come up.
    """
    port = free_port()
    engine = Engine(f"http://127.0.0.1:{port}")
    with (folder / "engine.log").open("wb") as log:
        process = subprocess.Popen(
            setup.command(port, folder),
            env=setup.environment(folder),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that all of it can be killed
        )
    try:
        deadline = time.monotonic() + setup.start_s
        while not engine.is_up():
            if process.poll() is not None or time.monotonic() > deadline:
                raise EngineError(f"The engine did not start: see {folder / 'engine.log'}")
            time.sleep(0.5)
        yield engine
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
