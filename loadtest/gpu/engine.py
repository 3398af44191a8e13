"""Engines of one model on one device, started side by side, and what they answer."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import aiohttp
import yaml

from dllm_stack.local.service import free_port
from loadtest.gpu import architecture
from loadtest.gpu.hooks import kernels, noise, plugin, rounds
from models.demo.agreement import plugins as engine_plugins
from worker import cpu
from worker.engine import moe

Device = Literal["cpu", "cuda"]

_ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT = aiohttp.ClientTimeout(total=600)
_LOG_TAIL = 6000
# SGLang must find this much of the card free before it loads weights, whatever it then takes: KV_TOKENS
# bounds that. Several engines share the card.
_MEM_FRACTION = 0.85
KV_TOKENS = {"cpu": 16_384, "cuda": 65_536}
# So that no request leans on the KV cache of one before it. (With that cache 0.5.17 does not run on a CPU.)
_WITHOUT_PREFIX_CACHE = ["--disable-radix-cache", "--page-size", "1"]
# SGLang does not start on GPUs of which one has less memory free, as where other engines are loading.
UNEVEN_MEMORY = {"SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK": "0"}


@dataclass(frozen=True)
class Variant:
    """One way to run the engine.

    Attributes:
        algorithm, parameters: SGLang's `--dllm-algorithm`, and the file that goes with it.
        rows: the most blocks in a forward.
        extension: with our extension; stock without.
        deterministic: with SGLang's flag for results that do not depend on the batch.
        may_fail: go on without it where it does not start.
        moe: folder of configurations of SGLang's kernel for a mixture of experts, as configs/moe is; None:
            SGLang's own alone.
        served: as its users run it, with its tokenizer and its prefix cache, and without the clock.
        gpus: the numbers of those that share the model, on a CPU of cores; None: the first one.
        checkpoint: in place of the machine's.
        arguments: more of the engine's, before the machine's.
    """

    name: str
    algorithm: str
    parameters: Mapping[str, Any]
    rows: int
    extension: bool = False
    deterministic: bool = False
    may_fail: bool = False
    moe: Path | None = None
    served: bool = False
    gpus: tuple[int, ...] | None = None
    checkpoint: Path | None = None
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machine:
    """
    Attributes:
        checkpoint: None: LLaDA2-mini's architecture with random weights.
        folder: for the engines' files.
        arguments: more of the engines'.
    """

    device: Device
    checkpoint: Path | None
    folder: Path
    start_s: float
    arguments: list[str] = field(default_factory=list)

    @property
    def model(self) -> Path:
        return self.checkpoint or architecture.write(self.folder / "mini")

    def command(self, variant: Variant, port: int, folder: Path) -> list[str]:
        checkpoint = variant.checkpoint or self.checkpoint
        parameters = folder / "algorithm.yaml"
        parameters.write_text(yaml.safe_dump(dict(variant.parameters)), "utf-8")
        return [
            *(sys.executable, "-m", "sglang.launch_server"),
            *("--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"),
            *("--model-path", str(checkpoint or self.model), "--trust-remote-code"),
            *(["--load-format", "dummy"] if checkpoint is None else []),
            *("--dllm-algorithm", variant.algorithm, "--dllm-algorithm-config", str(parameters)),
            *(
                "--max-running-requests",
                str(variant.rows),
                "--max-total-tokens",
                str(KV_TOKENS[self.device]),
            ),
            *("--mem-fraction-static", str(_MEM_FRACTION)),
            *_DEVICE_ARGUMENTS[self.device],
            *(["--enable-deterministic-inference"] if variant.deterministic else []),
            *(["--tp-size", str(len(variant.gpus))] if variant.gpus else []),
            *([] if variant.served and self.device == "cuda" else _WITHOUT_PREFIX_CACHE),
            *([] if variant.served else ["--skip-tokenizer-init"]),
            "--skip-server-warmup",
            *variant.arguments,
            *self.arguments,
        ]

    def environment(self, variant: Variant, folder: Path) -> dict[str, str]:
        watched = noise if variant.served else plugin
        plugins = {"gpu_benchmark": f"{watched.__name__}:{watched.register.__name__}"}
        # Without the second, a launcher whose scheduler has died waits a minute for a core dump of the GPU.
        more = {plugin.FOLDER: str(folder), "SGLANG_CUDA_COREDUMP_BEFORE_CRASH": "0"}
        if variant.extension:
            more[plugin.EXTENSION] = "1"
        if variant.deterministic and variant.extension:
            more[plugin.DETERMINISTIC] = "1"
        # Stock SGLang neither knows a small checkpoint's mask token nor runs right on a CPU.
        if variant.extension or variant.checkpoint or self.checkpoint:
            plugins["dllm_stack"] = "worker.dllm.plugin:register"
        if variant.moe is not None:
            moe.link(moe.links(variant.moe, folder / "moe"))
            more[moe.VARIABLE] = str(folder / "moe")
        if variant.gpus:
            more |= {"CUDA_VISIBLE_DEVICES": ",".join(map(str, variant.gpus)), **UNEVEN_MEMORY}
        if self.device == "cpu":
            more |= cpu.engine_environment(len(variant.gpus or [0]))
        return os.environ | more | with_plugins(folder / "site", plugins, more.get("PYTHONPATH"))


_DEVICE_ARGUMENTS: dict[Device, list[str]] = {
    "cpu": [
        "--device",
        "cpu",
        "--dtype",
        "float32",
        "--attention-backend",
        "torch_native",
        "--sleep-on-idle",
    ],
    "cuda": [
        *("--dtype", "bfloat16", "--attention-backend", "flashinfer"),
        *("--cuda-graph-backend-prefill", "disabled"),
    ],
}


class EngineError(Exception):
    """An engine did not start, or did not answer."""


class Engine:
    def __init__(self, machine: Machine, variant: Variant) -> None:
        self.variant = variant
        self.failure: str | None = None  # why it did not start
        self.folder = machine.folder / variant.name
        self.folder.mkdir(parents=True)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        with (self.folder / "engine.log").open("wb") as log:
            self._process = subprocess.Popen(
                machine.command(variant, port, self.folder),
                env=machine.environment(variant, self.folder),
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,  # so that all of it can be killed
            )

    async def wait_until_up(self, http: aiohttp.ClientSession, deadline: float) -> None:
        """Raises EngineError: it ended, or it was not up by then (time.monotonic)."""
        while True:
            with suppress(aiohttp.ClientError, TimeoutError):
                async with http.get(f"{self.url}/model_info", timeout=aiohttp.ClientTimeout(5)) as response:
                    if response.ok:
                        return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise EngineError(f"{self.variant.name} did not start:\n{self.log()[-_LOG_TAIL:]}")
            await asyncio.sleep(0.5)

    async def generate(
        self, http: aiohttp.ClientSession, prompts: Sequence[list[int]], sampling: Any, ids: Any = None
    ) -> list[dict[str, Any]]:
        """The answers, all prompts in one batch.

        Args:
            sampling: SGLang's sampling parameters, for all or one for each.
            ids: of the requests.

        Raises:
            EngineError
        """
        body = {"input_ids": list(prompts), "sampling_params": sampling, "rid": ids}
        try:
            async with http.post(f"{self.url}/generate", json=body, timeout=_TIMEOUT) as response:
                if not response.ok:
                    raise EngineError(f"{self.variant.name}: {response.status}: {await response.text()}")
                answers: list[dict[str, Any]] = await response.json()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise EngineError(f"{self.variant.name}: {error!r}\n{self.log()[-_LOG_TAIL:]}") from error
        return answers

    async def stream(
        self, http: aiohttp.ClientSession, prompt: list[int], sampling: dict[str, Any]
    ) -> AsyncIterator[int]:
        """How many tokens there are, whenever there are more."""
        body = {"input_ids": prompt, "sampling_params": sampling, "stream": True}
        tokens = 0
        async with http.post(f"{self.url}/generate", json=body, timeout=_TIMEOUT) as response:
            response.raise_for_status()
            async for line in response.content:
                if line.startswith(b"data: {"):
                    now = json.loads(line[len(b"data: ") :])["meta_info"]["completion_tokens"]
                    if now > tokens:
                        tokens = now
                        yield tokens

    def rounds(self, begin_s: float, end_s: float) -> list[rounds.Round]:
        return rounds.read(self.folder, begin_s, end_s)

    def kernels(self) -> kernels.Kernels | None:
        return kernels.take(self.folder)

    def log(self) -> str:
        return (self.folder / "engine.log").read_text("utf-8", "replace")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def started(machine: Machine, variants: Sequence[Variant]) -> Iterator[list[Engine]]:
    """Engines that answer, one of each variant, started at the same time; they are killed at the end.

    One that may fail can be among them with its `failure`.

    Raises:
        EngineError
    """
    begin = time.monotonic()
    engines: list[Engine] = []

    async def wait() -> None:
        async with aiohttp.ClientSession() as http:
            for engine in engines:
                try:
                    await engine.wait_until_up(http, begin + machine.start_s)
                except EngineError as error:
                    if not engine.variant.may_fail:
                        raise
                    engine.failure = str(error)
                state = "has failed" if engine.failure else "is up"
                print(f"{engine.variant.name} {state} after {time.monotonic() - begin:.0f} s", flush=True)

    try:
        for variant in variants:
            engines.append(Engine(machine, variant))
        asyncio.run(wait())
        yield engines
    finally:
        for engine in engines:
            engine.kill()


def with_plugins(folder: Path, plugins: Mapping[str, str], path: str | None = None) -> dict[str, str]:
    """The variables of an engine that shall load them, and no others.

    Args:
        path: its PYTHONPATH without them; None: this process's.
    """
    path = path or os.environ.get("PYTHONPATH")
    site = [str(engine_plugins.write(folder, plugins)), str(_ROOT)]
    return {
        "PYTHONPATH": os.pathsep.join([*site, *([path] if path else [])]),
        "SGLANG_PLUGINS": ",".join(plugins),
    }


def prompt(model: Path, tokens: int, seed: object) -> list[int]:
    """Random ids of the model's vocabulary, none of them special."""
    from random import Random

    config = json.loads((model / "config.json").read_text())
    special = {config[name] for name in ("mask_token_id", "eos_token_id", "pad_token_id") if name in config}
    random = Random(repr(seed))
    ids = (random.randrange(config["vocab_size"] * 9 // 10) for _ in range(2 * tokens))
    return [each for each in ids if each not in special][:tokens]
