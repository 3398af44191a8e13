"""Load as it was recorded: a file with a request a line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from dllm_stack.bench import json_lines
from dllm_stack.bench.asks import Prompt
from dllm_stack.bench.problem import Problem
from dllm_stack.bench.tokenizer import Tokenizer

_HASHED = 512  # tokens that a hash id of Mooncake's traces stands for


class Line(msgspec.Struct):
    """As in Mooncake's traces; `prompt` and `tenant` are additions.

    Attributes:
        timestamp: milliseconds, from any beginning.
        input_length, output_length: tokens. Without `prompt` the first is needed.
        hash_ids: of the prompt's stretches of 512 tokens; equal ids stand for equal tokens.
        tenant: one of the run's.
    """

    timestamp: float
    output_length: int
    input_length: int | None = None
    hash_ids: list[int] = []
    prompt: str | None = None
    tenant: str | None = None


def lines(file: Path, at_most: int | None) -> list[Line]:
    """By time.

    Raises:
        Problem
    """
    content = json_lines.read("--trace", file)
    found = []
    for where, line in json_lines.records("--trace", file, content, Line):
        if line.output_length < 1 or (line.prompt is None and (line.input_length or 0) < 1):
            raise Problem("--trace", f"{where}: input_length and output_length are at least 1")
        found.append(line)
    if not found:
        raise Problem("--trace", f"{file} has no requests")
    return sorted(found, key=lambda line: line.timestamp)[:at_most]


def prompt(line: Line, number: int, tokenizer: Tokenizer, seed: int, *, ids: bool) -> Prompt:
    """Its text, or random words of its length, the same for the same hash ids."""
    if line.prompt is not None:
        return Prompt(line.prompt, len(tokenizer.encode(line.prompt)), line.output_length)
    length = line.input_length or 0
    stretches = line.hash_ids[: -(-length // _HASHED)] or []
    words: list[int] = []
    for name in stretches:
        words += _words(tokenizer, _HASHED, seed, 1, name)
    words += _words(tokenizer, max(length - len(words), 0), seed, 2, number)
    if ids:
        return Prompt(words[:length], length, line.output_length)
    text, tokens = tokenizer.text_of(words[:length])
    return Prompt(text, tokens, line.output_length)


def _words(tokenizer: Tokenizer, count: int, *seed: int) -> list[int]:
    random = np.random.default_rng([each % 2**32 for each in seed])
    return [int(each) for each in random.choice(tokenizer.words, count)]
