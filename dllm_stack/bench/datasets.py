"""Prompts: of random words, or those of conversations in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dllm_stack.bench.asks import Prompt
from dllm_stack.bench.problem import Problem
from dllm_stack.bench.tokenizer import Tokenizer

_SHORTEST = 2  # tokens of a prompt or an answer of a conversation, as bench_serving has it


def lengths(longest: int, ratio: float, count: int, random: np.random.Generator) -> list[int]:
    """Tokens, evenly spread from `ratio` times the longest, or 1, to the longest."""
    drawn = random.integers(max(int(longest * ratio), 1), longest + 1, size=count)
    return [int(each) for each in drawn]


def random_words(
    tokenizer: Tokenizer,
    count: int,
    input_tokens: int,
    output_tokens: int,
    ratio: float,
    random: np.random.Generator,
    *,
    ids: bool = False,
) -> list[Prompt]:
    """Args: ids: prompts are token ids, not texts."""
    inputs, outputs = (lengths(longest, ratio, count, random) for longest in (input_tokens, output_tokens))
    prompts = []
    for length, answer in zip(inputs, outputs, strict=True):
        words = [int(each) for each in random.choice(tokenizer.words, length)]
        prompts.append(_prompt(tokenizer, words, answer, ids=ids))
    return prompts


def conversations(
    file: Path,
    tokenizer: Tokenizer,
    count: int,
    output_tokens: int | None,
    context: int | None,
    random: np.random.Generator,
) -> list[Prompt]:
    """The first two turns of conversations, shuffled; fewer than `count`, if the file has no more.

    Args:
        file: JSON as ShareGPT has it: a list of objects whose `conversations` have `value`s.
        output_tokens: of each answer; None: as many as that of the file.
        context: leave out what is longer, prompt and answer together.

    Raises:
        Problem
    """
    pairs = list(_pairs(_json(file), file))
    prompts: list[Prompt] = []
    for place in random.permutation(len(pairs)):
        if len(prompts) == count:
            break
        question, reply = pairs[place]
        tokens, answer = len(tokenizer.encode(question)), output_tokens or len(tokenizer.encode(reply))
        if min(tokens, answer) < _SHORTEST or (context and tokens + answer > context):
            continue
        prompts.append(Prompt(question, tokens, answer))
    if not prompts:
        raise Problem("--dataset-path", f"{file} has no conversation of two turns that fits")
    return prompts


def _json(file: Path) -> Any:
    try:
        return msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise Problem("--dataset-path", f"{file}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise Problem("--dataset-path", f"{file} is no JSON: {error}") from None


def _pairs(document: Any, file: Path) -> Iterator[tuple[str, str]]:
    if not isinstance(document, list):
        raise Problem("--dataset-path", f"{file} is no list of conversations")
    for place, entry in enumerate(document):
        try:
            turns = entry.get("conversations", entry.get("conversation", []))
            if len(turns) >= 2:
                question, reply = turns[0]["value"], turns[1]["value"]
                yield str(question), str(reply)
        except (AttributeError, KeyError, TypeError):
            raise Problem("--dataset-path", f"{file}, entry {place}, is no conversation") from None


def _prompt(tokenizer: Tokenizer, words: list[int], output_tokens: int, *, ids: bool) -> Prompt:
    if ids:
        return Prompt(words, len(words), output_tokens)
    text, tokens = tokenizer.text_of(words)
    return Prompt(text, tokens, output_tokens)
