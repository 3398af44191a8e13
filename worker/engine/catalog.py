"""The files in configs/models, configs/modes and configs/profiles: what may be served, how, and on what.

A model file says what a model is and how it decodes, in modes that models of one family share; a profile
says what a kind of machine is and how its engines run each model that fits on it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    ValidationError,
    model_validator,
)

from dllm_stack.decoding import (
    ALGORITHMS,
    SAMPLING_ALGORITHMS,
    Decision,
    check_own_parameters,
    check_parameters,
)
from dllm_stack.messages import DecodingCard
from dllm_stack.settings import CONFIGS
from worker.engine.architectures import BLOCK_DIFFUSION

# A model's name is part of Redis keys and of metric labels, and `name:mode` selects a decoding mode.
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
Name = Annotated[str, Field(pattern=_NAME, max_length=64)]


class CatalogError(Exception):
    """A model or profile file is missing or wrong; the message names the file and every wrong field."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Facts(_Record):
    """What a checkpoint is, as its config.json says or, before it is downloaded, its model file."""

    architecture: str
    attention_heads: int = Field(ge=1)
    kv_heads: int = Field(ge=1)
    context_length: int = Field(ge=1, description="Tokens, prompt and answer together.")
    vocab_size: int = Field(ge=1)
    weights_gb: float | None = Field(None, gt=0, description="10^9 bytes of weights; None: unknown.")
    block_size: int | None = Field(None, ge=1, description="None: autoregressive, or SGLang's own value.")
    mask_id: int | None = Field(None, ge=0, description="None: SGLang's own value, if it is a token.")
    chat_template: bool | None = Field(None, description="None: unknown before the tokenizer is there.")

    @property
    def is_dllm(self) -> bool:
        return self.architecture in BLOCK_DIFFUSION


class Mode(BaseModel):
    """An algorithm, and its parameters beside it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    algorithm: str = Field(min_length=1)

    @property
    def decision(self) -> Decision:
        return Decision(algorithm=self.algorithm, parameters=dict(self.model_extra or {}))


class Modes(RootModel[dict[Name, Mode]]):
    """A file of configs/modes: what a family of models can do, by name."""


def _modes(value: Any) -> Any:
    """Modes are written out, or named: a file in configs/modes, or a path."""
    if not isinstance(value, str):
        return value
    try:
        return _load(Modes, "modes", value).root
    except CatalogError as error:
        raise ValueError("; ".join(str(error).splitlines())) from None


class Dllm(_Record):
    """Modes, of which each request may choose, or one of SGLang's own algorithms for all requests."""

    modes: Annotated[dict[Name, Mode], BeforeValidator(_modes)] = Field(
        {}, description="A name in configs/modes, the path of such a file, or what such a file holds."
    )
    mode: Name | None = Field(None, description="The mode of a request that asks for nothing else.")
    algorithms: dict[Name, Path] = Field({}, description="Algorithms of one's own: name -> Python file.")
    block_size: int | None = Field(None, ge=1, description="Tokens; None: the checkpoint's.")
    algorithm: str | None = Field(
        None, min_length=1, description="SGLang's --dllm-algorithm, instead of modes."
    )
    config: dict[str, Any] = Field({}, description="The YAML of its --dllm-algorithm-config.")

    @property
    def decoding(self) -> DecodingCard | None:
        """What a request may choose; None: nothing."""
        if self.mode is None:
            return None
        return DecodingCard(
            default=self.modes[self.mode].decision,
            modes={name: mode.decision for name, mode in self.modes.items()},
            # What one's own algorithm takes is for the engine to say, which has read it.
            algorithms={name: sorted(takes) for name, takes in ALGORITHMS.items()}
            | {name: [] for name in self.algorithms},
            sampling=sorted(SAMPLING_ALGORITHMS),
        )

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.algorithm is not None:
            if self.modes or self.mode or self.algorithms or self.block_size:
                raise ValueError(
                    "algorithm is for all requests: it cannot be beside modes and what goes with them"
                )
            return self
        if self.config:
            raise ValueError("config is that of an algorithm: write parameters into a mode")
        if self.mode not in self.modes:
            raise ValueError(
                f"mode must be one of {', '.join(self.modes) or 'the modes, and there are none'}"
            )
        for name, path in self.algorithms.items():
            if name in ALGORITHMS:
                raise ValueError(f"algorithms.{name}: is the name of one that there is already")
            if not path.expanduser().is_file():
                raise ValueError(f"algorithms.{name}: there is no file {path}")
        for name, mode in self.modes.items():
            self._check(name, mode.decision)
        return self

    def _check(self, name: str, decision: Decision) -> None:
        known = [*ALGORITHMS, *self.algorithms]
        if decision.algorithm not in known:
            raise ValueError(
                f"modes.{name}.algorithm: there is no {decision.algorithm}: choose {', '.join(known)}"
            )
        try:
            if decision.algorithm in ALGORITHMS:
                check_parameters(decision.algorithm, decision.parameters)
            else:
                check_own_parameters(decision.parameters)
        except ValueError as error:
            raise ValueError(f"modes.{name}.{error}") from None


class Model(_Record):
    name: Name = Field(description="The model id that clients send, and the pool of its workers.")
    checkpoint: str = Field(
        min_length=1,
        description="A hub id, a folder, `demo:` (part of this package), `tiny:` or `tiny-ar:` (written "
        "locally).",
    )
    revision: str | None = Field(None, description="Commit, tag or branch of a hub id.")
    facts: Facts | None = Field(None, description="Of the checkpoint, to check settings without it.")
    dllm: Dllm | None = Field(None, description="None: the model is autoregressive.")


class Engine(_Record):
    """How one engine runs one model on a profile's machine."""

    tp: int = Field(1, ge=1, description="GPUs of one engine; a machine has room for gpus // tp workers.")
    mem_fraction: float = Field(gt=0, lt=1, description="Share of memory for weights and KV cache.")
    max_running_requests: int = Field(ge=1, description="SGLang takes 1 for a dLLM when this is not given.")
    prompt_rows: int | None = Field(
        None,
        ge=0,
        description="Prompt blocks of a forward that denoises nothing; 0: one request's next block.",
    )
    mixed_prompt_rows: int | None = Field(
        None, ge=0, description="Prompt blocks beside those that are denoised; 0: prompts first."
    )
    steps_per_round: int | None = Field(
        None, ge=1, description="Denoise steps before the scheduler is asked again."
    )
    check_ranks: bool = Field(
        False, description="For debugging: compare after each step what the GPUs have come to."
    )
    args: list[str] = Field([], description="More sglang.launch_server arguments.")


class Profile(_Record):
    name: Name
    vendor: Literal["nvidia", "amd", "cpu"]
    gpu: str | None = Field(None, description="A word of the name that the driver reports, such as H100.")
    gpus: int = Field(0, ge=0, description="GPUs of the machine.")
    gpu_memory_gib: float | None = Field(None, gt=0, description="Memory of one GPU, 2^30 bytes.")
    dllm_attention_backend: str
    models: dict[Name, Engine]

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        gpu_fields = (self.gpu is not None, self.gpus > 0, self.gpu_memory_gib is not None)
        if self.vendor == "cpu" and any(gpu_fields):
            raise ValueError("vendor cpu has no gpu, gpus or gpu_memory_gib")
        if self.vendor != "cpu" and not all(gpu_fields):
            raise ValueError(f"vendor {self.vendor} needs gpu, gpus and gpu_memory_gib")
        for name, engine in self.models.items():
            if self.vendor != "cpu" and engine.tp > self.gpus:
                raise ValueError(f"models.{name}.tp: {engine.tp} is more than the machine's {self.gpus} GPUs")
        return self


_AnyRecord = TypeVar("_AnyRecord", bound=BaseModel)


def load_model(name_or_path: str) -> Model:
    """Reads a model file: a name in configs/models, or a path.

    Raises:
        CatalogError: it is missing or wrong.
    """
    return _load(Model, "models", name_or_path)


def load_profile(name_or_path: str) -> Profile:
    """Reads a hardware profile: a name in configs/profiles, or a path.

    Raises:
        CatalogError: it is missing or wrong.
    """
    return _load(Profile, "profiles", name_or_path)


def _load(record: type[_AnyRecord], folder: str, name_or_path: str) -> _AnyRecord:
    path = _find(folder, name_or_path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogError(f"{path}: {error}") from None
    except yaml.YAMLError as error:
        raise CatalogError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise CatalogError(f"{path}: must be a mapping of fields")
    try:
        return record.model_validate(content)
    except ValidationError as error:
        raise CatalogError("\n".join(f"{path}: {_describe(e)}" for e in error.errors())) from None


def _find(folder: str, name_or_path: str) -> Path:
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        return Path(name_or_path).expanduser()
    path = CONFIGS / folder / f"{name_or_path}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in path.parent.glob("*.yaml")))
        raise CatalogError(f"no {name_or_path!r} in configs/{folder}: choose {known}, or give a file's path")
    return path


def _describe(error: Any) -> str:
    """One of pydantic's errors as `field: what is wrong`."""
    message = error["msg"].removeprefix("Value error, ")
    field = ".".join(str(part) for part in error["loc"])
    return f"{field}: {message}" if field else message
