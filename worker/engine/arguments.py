"""Reading arguments of sglang.launch_server, without importing SGLang."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

# The other spellings of the options that the worker sets or checks; a test compares them with SGLang's.
ALIASES = {
    "--model": "--model-path",
    "--tensor-parallel-size": "--tp-size",
    "--tp": "--tp-size",
    "--data-parallel-size": "--dp-size",
    "--dp": "--dp-size",
    "--pipeline-parallel-size": "--pp-size",
    "--pp": "--pp-size",
}

# Options that engine_args may not hold, and what to do instead.
RESERVED = {
    "--admin-api-key": "the worker calls its engine without a key, and only on 127.0.0.1",
    "--api-key": "the worker calls its engine without a key, and only on 127.0.0.1",
    "--config": "write its options out, so that they can be checked",
    "--device": "choose a profile for that device",
    "--dp-size": "run one worker for each copy of the model",
    "--host": "the engine listens on 127.0.0.1 only, for its worker",
    "--incremental-streaming-output": "the worker relies on its own choice of streaming format",
    "--json-model-override-args": "change the checkpoint's config.json",
    "--model-path": "set worker.checkpoint, or `checkpoint` in the model file",
    "--nnodes": "an engine runs on one machine",
    "--port": "the worker chooses its engine's port",
    "--pp-size": "use --tp-size: dLLM decoding has no pipeline parallelism",
    "--revision": "set `revision` in the model file",
    "--served-model-name": "set `name` in the model file",
    "--skip-tokenizer-init": "the engine must turn tokens into text",
    "--stream-interval": "the worker sets it to one committed block",
    "--tokenizer-path": "put the tokenizer into the checkpoint's folder",
}

CHECKED = frozenset(
    {
        "--attention-backend",
        "--dllm-algorithm",
        "--dllm-algorithm-config",
        "--max-running-requests",
        "--mem-fraction-static",
        "--tp-size",
    }
)

DETERMINISTIC = "--enable-deterministic-inference"

_SPELLINGS = frozenset({*RESERVED, *CHECKED, *ALIASES, DETERMINISTIC})


def options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option under its main spelling, with its first value, or "" where it has none.

    Raises:
        ValueError: a sentence about an argument that is no option, or abbreviates one of ours: argparse
            would accept it, and it would pass unseen.
    """
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if not name.startswith("--"):
            if index == 0:
                raise ValueError(f"{argument!r} is no option: the first argument must begin with --.")
            continue
        if " " in name:
            raise ValueError(f"{argument!r} holds a space: give the option and its value as two items.")
        if name not in _SPELLINGS:
            full = sorted(spelling for spelling in _SPELLINGS if spelling.startswith(name))
            if full:
                raise ValueError(f"{name} is an abbreviation: write {' or '.join(full)}.")
        if not equals and index + 1 < len(arguments) and not arguments[index + 1].startswith("--"):
            value = arguments[index + 1]
        yield ALIASES.get(name, name), value


def last_values(arguments: Sequence[str]) -> dict[str, str]:
    """The value of each option that counts: of a repeated one, the last."""
    return dict(options(arguments))
