"""What the worker refuses to start, and why: everything is checked before the first process."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from worker import cpu
from worker.engine import arguments, command
from worker.engine.architectures import BLOCK_DIFFUSION, PER_REQUEST
from worker.engine.catalog import Facts, Model, Profile
from worker.engine.hardware import Hardware

_Number = TypeVar("_Number", int, float)

_GIB = 2**30

# SGLang accepts it for a dLLM on AMD, but its prefill is causal, so that a position would not see those
# behind it in its own block, and the text would be wrong.
_CAUSAL_BACKEND = "aiter"

# Under --enable-deterministic-inference SGLang cuts prompts at multiples of what its attention backend reads
# at a time, and asserts that a dLLM's are not cut. From this version on Triton's need no such cuts.
_TRITON_CUTS_NO_PROMPT_SINCE = (0, 5, 23)
_NOT_DETERMINISTIC = "torch_native"


class Refused(Exception):
    """The settings cannot work. `reasons` are sentences: what is wrong, and what to do."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("\n".join(reasons))
        self.reasons = list(reasons)


def check(
    model: Model,
    profile: Profile,
    facts: Facts,
    hardware: Hardware,
    *,
    engine_args: Sequence[str] = (),
    sglang_version: str | None,
) -> None:
    """Refuses settings with which an engine could not start, or would answer nonsense.

    Args:
        facts: of the checkpoint that will be loaded.
        hardware: of this machine.
        engine_args: the user's, which may override the profile's.
        sglang_version: None: SGLang is not installed.

    Raises:
        Refused: with every reason there is.
    """
    reasons = [*_environment(profile, hardware, sglang_version), *_checkpoint(facts)]
    if model.name not in profile.models:
        reasons.append(_no_entry(model, profile, facts))
    elif unreadable := [*_unreadable(profile.models[model.name].args), *_unreadable(engine_args)]:
        reasons += unreadable
    elif wrong := [*_parameters([*profile.models[model.name].args, *engine_args], model, facts)]:
        reasons += wrong
    else:
        planned = command.build(
            model,
            profile,
            model.checkpoint,
            facts,
            port=0,
            run_dir=Path(),
            engine_args=engine_args,
            sglang_version=sglang_version or "0",
        )
        values = planned.values
        reasons += decoding(facts, values.get("--dllm-algorithm"), values.get("--attention-backend"))
        if facts.is_dllm and arguments.DETERMINISTIC in values:
            reasons += _deterministic(values, profile, sglang_version or "0")
        reasons += _sizes(values, planned.requests, facts, profile, hardware)
    if reasons:
        raise Refused(reasons)


def decoding(facts: Facts, algorithm: str | None, attention_backend: str | None = None) -> Iterator[str]:
    """Why a checkpoint cannot be decoded this way. Also for an engine that runs already."""
    architecture = BLOCK_DIFFUSION.get(facts.architecture)
    if architecture is None:
        if algorithm is not None:
            yield (
                f"The dLLM algorithm {algorithm!r} cannot decode {facts.architecture}, which is "
                "autoregressive: remove `dllm` from the model file and --dllm-algorithm from "
                "worker.engine_args."
            )
        return
    choices = ", ".join(sorted(architecture.algorithms))
    if not algorithm:
        yield (
            f"{facts.architecture} is a diffusion model, whose answers are nonsense without a dLLM "
            f"algorithm: set `dllm.modes` in the model file, or `dllm.algorithm` to one of {choices}."
        )
    elif algorithm == PER_REQUEST and architecture.mask_id < 0:
        yield (
            f"{facts.architecture} decodes without a mask, so it has no modes: set `dllm.algorithm` in the "
            f"model file to one of {choices} instead of `dllm.modes`."
        )
    elif algorithm != PER_REQUEST and algorithm not in architecture.algorithms:
        yield f"{algorithm!r} is no dLLM algorithm for {facts.architecture}: choose one of {choices}."
    if attention_backend == _CAUSAL_BACKEND:
        yield (
            f"The attention backend {_CAUSAL_BACKEND} is causal inside a block, which makes a diffusion "
            "model's answers wrong: use --attention-backend triton."
        )


def _deterministic(values: dict[str, str], profile: Profile, sglang_version: str) -> Iterator[str]:
    backend = values["--attention-backend"]
    if profile.vendor == "nvidia" and values.get("--cuda-graph-backend-decode") != "disabled":
        backend = "flashinfer"  # SGLang's choice for a dLLM's graphs, whatever was asked for
    triton_cuts = command.version_numbers(sglang_version) < _TRITON_CUTS_NO_PROMPT_SINCE
    if backend == _NOT_DETERMINISTIC:
        yield (
            f"Engine argument {arguments.DETERMINISTIC} needs a deterministic attention backend, and SGLang "
            f"does not start with {backend}: remove it."
        )
    elif backend == "flashinfer" or (backend == "triton" and triton_cuts):
        yield (
            f"Engine argument {arguments.DETERMINISTIC} would end the engine at its first request, because "
            f"with {backend} SGLang {sglang_version} cuts prompts where a diffusion model's cannot be cut: "
            "remove it."
        )


def _environment(profile: Profile, hardware: Hardware, sglang_version: str | None) -> Iterator[str]:
    if sglang_version is None:
        yield "SGLang is not installed beside the worker: install dllm-stack[engine]."
    if profile.vendor == "cpu":
        return
    if profile.vendor != hardware.vendor:
        present = f"{hardware.vendor} GPUs" if hardware.gpus else "no GPU"
        yield (
            f"The profile {profile.name} is for {profile.vendor} GPUs, but this machine has {present}: "
            "choose another profile, or run the worker where those GPUs are."
        )
        return
    others = sorted({gpu.name for gpu in hardware.gpus if gpu.name and not _is_named(gpu.name, profile)})
    if others:
        yield (
            f"The profile {profile.name} is for {profile.gpu}, but this machine has {', '.join(others)}: "
            "choose the profile of that GPU, or write one."
        )


def _is_named(gpu_name: str, profile: Profile) -> bool:
    """Whole words only: H20 is no H200. AMD's drivers know a MI355X as AMD Instinct MI355 OAM, too."""
    word = re.escape(profile.gpu or "")
    if profile.vendor == "amd":
        word = word.removesuffix("X") + "X?"
    return re.search(rf"\b{word}\b", gpu_name) is not None


def _checkpoint(facts: Facts) -> Iterator[str]:
    if facts.chat_template is False:
        yield (
            "The checkpoint has no chat template, so it would not see the roles of a conversation: add "
            "chat_template.jinja, or `chat_template` in tokenizer_config.json, to its folder."
        )
    architecture = BLOCK_DIFFUSION.get(facts.architecture)
    if architecture is None or architecture.mask_id < 0:
        return
    if facts.mask_id is None:
        yield (
            f"The checkpoint does not say which token is the mask, and SGLang's {architecture.mask_id} lies "
            f"outside its vocabulary of {facts.vocab_size}: add mask_token_id to its config.json."
        )
    elif facts.mask_id >= facts.vocab_size:
        yield (
            f"mask_token_id {facts.mask_id} lies outside the checkpoint's vocabulary of {facts.vocab_size}: "
            "correct it in config.json."
        )


def _no_entry(model: Model, profile: Profile, facts: Facts) -> str:
    memory_gib = profile.gpus * (profile.gpu_memory_gib or 0)
    if memory_gib and (facts.weights_gb or 0) * 1e9 > memory_gib * _GIB:
        return (
            f"{model.name} does not fit on {profile.name}: it has {facts.weights_gb:.0f} GB of weights and "
            f"the {profile.gpus} GPUs hold {memory_gib * _GIB / 1e9:.0f} GB; choose the profile of a larger "
            "machine."
        )
    return (
        f"The profile {profile.name} has no entry for {model.name}: choose a profile that has, or write a "
        "profile file with one under `models`."
    )


def _unreadable(engine_args: Sequence[str]) -> Iterator[str]:
    try:
        given = list(arguments.options(engine_args))
    except ValueError as error:
        yield f"Engine argument {error}"
        return
    for name, value in given:
        if name in arguments.RESERVED:
            yield f"Engine argument {name} is the worker's own: {arguments.RESERVED[name]}."
        elif name in arguments.CHECKED and not value and name != "--dllm-algorithm":
            yield f"Engine argument {name} has no value: add one."


def _parameters(args: Sequence[str], model: Model, facts: Facts) -> Iterator[str]:
    """What is wrong with an algorithm, or the file of its parameters, among the arguments."""
    given = arguments.last_values(args)
    if given.get("--dllm-algorithm") == PER_REQUEST:
        yield (
            f"Engine argument --dllm-algorithm {PER_REQUEST} is what a model file with `dllm.modes` gets by "
            "itself: remove it."
        )
    elif "--dllm-algorithm-config" in given and "--dllm-algorithm" not in given and _has_modes(model):
        yield (
            "Engine argument --dllm-algorithm-config is for an algorithm of SGLang's: give --dllm-algorithm "
            "too, or write the parameters into `dllm.modes` of the model file."
        )
    try:
        command.block_size(None, facts, args)
    except ValueError as error:
        yield f"--dllm-algorithm-config {error}"


def _has_modes(model: Model) -> bool:
    return model.dllm is not None and model.dllm.algorithm is None


def _sizes(
    values: dict[str, str], requests_at_once: str, facts: Facts, profile: Profile, hardware: Hardware
) -> Iterator[str]:
    tp = _parsed(int, values["--tp-size"])
    requests = _parsed(int, requests_at_once)
    fraction = _parsed(float, values["--mem-fraction-static"])
    if requests is None or requests < 1:
        yield (
            f"--max-running-requests is {requests_at_once}, but an engine runs 1 or more: "
            "set `max_running_requests` in the profile to how many."
        )
    if fraction is None or not 0 < fraction < 1:
        fraction = None
        yield (
            f"--mem-fraction-static is {values['--mem-fraction-static']}, which is no share of the memory: "
            "set it between 0 and 1, such as 0.8."
        )
    if tp is None or tp < 1:
        yield f"--tp-size is {values['--tp-size']}, which is no number of GPUs: set it to 1 or more."
        return
    yield from _tensor_parallelism(tp, facts, profile, hardware)
    if fraction:
        yield from _memory(tp, fraction, facts, profile, hardware)


def _tensor_parallelism(tp: int, facts: Facts, profile: Profile, hardware: Hardware) -> Iterator[str]:
    if profile.vendor == "cpu" and tp > (cores := len(cpu.cores())):
        yield (
            f"--tp-size {tp} needs {tp} cores where there is no GPU, but the worker may use {cores}: "
            "lower it."
        )
    if profile.vendor == hardware.vendor != "cpu" and tp > len(hardware.gpus):
        yield (
            f"--tp-size {tp} needs {tp} GPUs, but the worker sees {len(hardware.gpus)}: lower it, or give "
            "the worker more."
        )
    elif profile.vendor == hardware.vendor and tp > 1 and any(gpu.is_slice for gpu in hardware.gpus):
        yield (
            f"--tp-size {tp} needs whole GPUs, but the worker sees slices of them (MIG), which cannot share "
            "a model: set it to 1, or end their MIG mode."
        )
    sizes = [size for size in range(1, facts.attention_heads + 1) if _divides(size, facts)]
    if tp not in sizes:
        yield (
            f"--tp-size {tp} does not split the {facts.attention_heads} attention heads and {facts.kv_heads} "
            f"KV heads evenly: choose one of {', '.join(map(str, sizes))}."
        )


def _divides(tp: int, facts: Facts) -> bool:
    """Heads are split evenly; fewer KV heads than GPUs are copied instead."""
    kv_heads = facts.kv_heads
    return facts.attention_heads % tp == 0 and (kv_heads % tp == 0 or tp % kv_heads == 0)


def _memory(tp: int, fraction: float, facts: Facts, profile: Profile, hardware: Hardware) -> Iterator[str]:
    if facts.weights_gb is None or profile.gpu_memory_gib is None:
        return
    # Of the GPUs that are really there; else what the profile says of them.
    known = [
        gpu.memory_bytes for gpu in hardware.gpus if profile.vendor == hardware.vendor and gpu.memory_bytes
    ]
    gpu_gb = min(known, default=profile.gpu_memory_gib * _GIB) / 1e9
    share_gb = facts.weights_gb / tp
    if share_gb >= gpu_gb * fraction:
        yield (
            f"{facts.weights_gb:.0f} GB of weights at --tp-size {tp} are {share_gb:.0f} GB a GPU, and "
            f"--mem-fraction-static {fraction:g} leaves {gpu_gb * fraction:.0f} of its {gpu_gb:.0f} GB: "
            "raise --tp-size, or use larger GPUs."
        )


def _parsed(kind: type[_Number], text: str) -> _Number | None:
    """As SGLang's own parser would read it."""
    try:
        return kind(text)
    except ValueError:
        return None
