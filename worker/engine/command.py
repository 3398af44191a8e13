"""The command line and environment of an engine: stock `sglang.launch_server`, nothing else."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dllm_stack.settings import CONFIGS
from worker import cpu
from worker.engine import arguments, decoder_file, moe
from worker.engine.architectures import NEEDS_REMOTE_CODE, PER_REQUEST
from worker.engine.catalog import Dllm, Engine, Facts, Model, Profile

# Before this version SGLang streams only when len(output) % interval == 1, which a length that grows by
# whole blocks hardly ever meets; from it on, whenever an interval's worth of tokens is unsent.
_STREAMS_BY_BLOCK_SINCE = (0, 5, 22)

# With its prefix cache a dLLM's KV has pages of a block, which 0.5.17 allots by a kernel of Triton, and so
# only on a GPU; 0.5.23 does without where there is no Triton.
_PAGES_ON_A_CPU_SINCE = (0, 5, 23)
_WITHOUT_PAGES = ["--disable-radix-cache", "--page-size", "1"]

# SGLang's dLLM decoding always runs the graphs of its decode phase, never those of its prefill phase,
# which take a minute and memory to capture; on AMD it refuses graphs.
_DLLM_GRAPHS = {
    "nvidia": ["--cuda-graph-backend-prefill", "disabled"],
    "amd": ["--cuda-graph-backend-decode", "disabled", "--cuda-graph-backend-prefill", "disabled"],
    "cpu": [],
}

# One event a token: with all of the answer in each, a long one would cost its length squared. (A dLLM's
# events are blocks, and what its blocks have cost comes whole only with all of the answer.)
_DELTAS = ["--incremental-streaming-output"]

# A launcher that lost its detokenizer would wait a minute for a core dump of the GPU, answering nothing.
_ENVIRONMENT = {"SGLANG_CUDA_COREDUMP_BEFORE_CRASH": "0"}


@dataclass(frozen=True)
class EngineCommand:
    argv: list[str]
    env: dict[str, str]  # to be added to the worker's own environment
    files: dict[Path, str]  # what argv refers to: see write_files
    block_size: int  # tokens committed at a time; 1 for an autoregressive model
    requests: str  # at once, as profile and user say; what is no number has been refused by `preflight.check`
    links: dict[Path, Path] = field(default_factory=dict)  # what env refers to: see write_files

    @property
    def values(self) -> dict[str, str]:
        """SGLang's options as they take effect, engine_args included."""
        return arguments.last_values(self.argv[_PROGRAM_LENGTH:])

    @property
    def slots(self) -> int:
        """Requests that the engine runs at once."""
        return int(self.requests)

    @property
    def algorithm(self) -> str | None:
        """The dLLM decoding algorithm; None for an autoregressive model."""
        return self.values.get("--dllm-algorithm")

    def write_files(self) -> None:
        for path, content in self.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        moe.link(self.links)


_PROGRAM = ["-m", "sglang.launch_server"]
_PROGRAM_LENGTH = 1 + len(_PROGRAM)


def sglang_version() -> str | None:
    """The version of SGLang installed beside the worker; None: it is not installed."""
    try:
        return importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        return None


def version_numbers(sglang_version: str) -> tuple[int, ...]:
    """To be compared: 0.5.17.post1 is (0, 5, 17)."""
    return tuple(int(number) for number in re.findall(r"\d+", sglang_version)[:3])


def build(
    model: Model,
    profile: Profile,
    location: str,
    facts: Facts,
    *,
    port: int,
    run_dir: Path,
    engine_args: Sequence[str] = (),
    sglang_version: str,
) -> EngineCommand:
    """The engine's command for a model on a profile's machine. Writes nothing: see `write_files`.

    Args:
        location: the checkpoint, a folder or a hub id.
        facts: of that checkpoint.
        run_dir: the worker's own folder, for files that the command refers to.
        engine_args: the user's; they come last, so they win.

    Raises:
        KeyError: the profile has no entry for the model.
        ValueError: engine_args, or a file that they name, cannot be read. `preflight.check` refuses both
            with a sentence.
    """
    engine = profile.models[model.name]
    args = [*engine.args, *engine_args]
    given = arguments.last_values(args)
    # An algorithm among the arguments replaces the model file's, whose parameters are not meant for it.
    dllm = None if "--dllm-algorithm" in given else model.dllm
    committed = block_size(dllm, facts, args)
    requests = given.get("--max-running-requests") or str(engine.max_running_requests)
    tp = gpus(engine, engine_args)
    files: dict[Path, str] = {}
    algorithm: list[str] = []
    rows = 0
    if dllm:
        name, content = dllm.algorithm, yaml.safe_dump(dllm.config, sort_keys=False) if dllm.config else None
        if name is None:
            rounds = decoder_file.rounds(engine, profile.vendor, tp)
            name, rows = PER_REQUEST, rounds.rows
            content = decoder_file.content(dllm, _number(requests), rounds, check_ranks=engine.check_ranks)
        algorithm = ["--dllm-algorithm", name]
        if content is not None:
            path = run_dir / "dllm-algorithm.yaml"
            files[path] = content
            algorithm += ["--dllm-algorithm-config", str(path)]
    argv = [sys.executable, *_PROGRAM]
    argv += ["--model-path", location, "--served-model-name", model.name]
    if model.revision and location == model.checkpoint:
        argv += ["--revision", model.revision]
    if facts.architecture in NEEDS_REMOTE_CODE:
        argv += ["--trust-remote-code"]
    argv += ["--host", "127.0.0.1", "--port", str(port), "--enable-metrics"]
    argv += ["--tp-size", str(engine.tp), "--mem-fraction-static", str(engine.mem_fraction)]
    # SGLang has as many rows in its buffers as requests may run.
    capacity = ["--max-running-requests", str(_number(requests) + rows)]
    argv += capacity
    if profile.vendor == "cpu":
        argv += ["--device", "cpu"]
    argv += algorithm
    if facts.is_dllm:
        argv += ["--attention-backend", profile.dllm_attention_backend, *_DLLM_GRAPHS[profile.vendor]]
        argv += ["--stream-interval", str(_stream_interval(committed, sglang_version))]
        if profile.vendor == "cpu" and version_numbers(sglang_version) < _PAGES_ON_A_CPU_SINCE:
            argv += _WITHOUT_PAGES
    else:
        argv += _DELTAS
    argv += args
    if rows and "--max-running-requests" in given:
        argv += capacity
    env = _ENVIRONMENT | (cpu.engine_environment(tp) if profile.vendor == "cpu" else {})
    links = {}
    # Whoever has set the variable has files of his own.
    if profile.gpu and moe.VARIABLE not in os.environ and moe.is_for(CONFIGS / "moe", profile.gpu):
        links = moe.links(CONFIGS / "moe", run_dir / "moe")
    if links:
        env[moe.VARIABLE] = str(run_dir / "moe")
    return EngineCommand(argv, env, files, committed, requests, links)


def gpus(engine: Engine, engine_args: Sequence[str] = ()) -> int:
    """Of one engine, or ranks on a CPU; 0: the arguments give no number.

    Raises:
        ValueError: the arguments cannot be read.
    """
    given = arguments.last_values([*engine.args, *engine_args])
    return _number(given.get("--tp-size") or str(engine.tp))


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


def block_size(dllm: Dllm | None, facts: Facts, args: Sequence[str] = ()) -> int:
    """Tokens that the engine commits at a time; 1 for an autoregressive model.

    SGLang lets a block_size among the algorithm's parameters outrank the checkpoint's.

    Args:
        args: the profile's and the user's engine arguments; a file of parameters among them replaces the
            model file's.

    Raises:
        ValueError: a sentence: that file cannot be read.
    """
    path = arguments.last_values(args).get("--dllm-algorithm-config")
    if path:
        own = _parameters(Path(path)).get("block_size")
    else:
        own = (dllm.block_size or dllm.config.get("block_size")) if dllm else None
    return int(own or facts.block_size or 1)


def _parameters(path: Path) -> dict[str, Any]:
    try:
        parameters = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist: give the path of a YAML file.") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(parameters, dict):
        raise ValueError(f"{path} holds no parameters: it must be a mapping.")
    size = parameters.get("block_size")
    if size is not None and (type(size) is not int or size < 1):
        raise ValueError(f"{path} has the block_size {size!r}: it must be a number of tokens, 1 or more.")
    return parameters


def _stream_interval(block_size: int, sglang_version: str) -> int:
    """Tokens between two events of a stream: each event is then one committed block."""
    return block_size if version_numbers(sglang_version) >= _STREAMS_BY_BLOCK_SINCE else 1
