"""What an engine answered, as a JSON file."""

from __future__ import annotations

import hashlib
import json
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from models.demo.agreement.engine import Setup, started

_FACTS = ("version", "dtype", "device", "attention_backend", "moe_runner_backend")

Answers = list[list[int]]


@dataclass(frozen=True)
class Prompt:
    name: str
    ids: list[int]


@dataclass(frozen=True)
class Record:
    """
    Attributes:
        facts: the engine's versions, device and kernels.
        weights: SHA-256 of the checkpoint's model.safetensors.
        threshold: of LowConfidence.
        alone: each prompt's answer, asked by itself.
        together: the same, all prompts in one batch.
        seconds: that each of the two took, kernels' compilation included.
    """

    facts: dict[str, str]
    weights: str
    threshold: float
    max_tokens: int
    prompts: list[Prompt]
    alone: Answers
    together: Answers
    seconds: dict[str, float]

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self), ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def read(cls, file: Path) -> Record:
        """Raises ValueError: the file is no such record."""
        try:
            values = json.loads(file.read_text("utf-8"))
            return cls(**values | {"prompts": [Prompt(**prompt) for prompt in values["prompts"]]})
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file}: not written by `agreement run`: {error!r}") from error


def take(setup: Setup, folder: Path, prompts: list[Prompt], max_tokens: int) -> Record:
    """Starts an engine and asks it everything.

    Args:
        folder: empty, for the engine's files.

    Raises:
        EngineError
    """
    with started(setup, folder) as engine:
        begin = time.monotonic()
        alone = [engine.answers([prompt.ids], max_tokens)[0] for prompt in prompts]
        middle = time.monotonic()
        together = engine.answers([prompt.ids for prompt in prompts], max_tokens)
        end = time.monotonic()
        said = engine.information()
    facts = {name: str(said.get(name)) for name in _FACTS}
    facts["torch"] = torch.__version__
    facts["machine"] = torch.cuda.get_device_name() if setup.device == "cuda" else platform.machine()
    facts["kernels"] = "plain PyTorch" if setup.plain_kernels or setup.device == "cpu" else "SGLang's"
    weights = hashlib.sha256((setup.checkpoint / "model.safetensors").read_bytes()).hexdigest()
    seconds = {"alone": round(middle - begin, 1), "together": round(end - middle, 1)}
    return Record(facts, weights, setup.threshold, max_tokens, prompts, alone, together, seconds)
