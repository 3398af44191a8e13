"""What the installed SGLang's own command line is, read in a process of its own.

SGLang cannot be imported here: on a machine without a GPU it needs its CPU environment from the start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from worker import cpu

_PROGRAM = """
import argparse, ast, contextlib, inspect, json, sys

commands = json.load(sys.stdin)
with contextlib.redirect_stdout(sys.stderr):
    from sglang.srt.server_args import ServerArgs
    from sglang.srt.dllm.algorithm import algo_name_to_cls
    from sglang.srt.dllm.config import DllmConfig

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    parsed = [vars(parser.parse_args(command)) for command in commands]

(table,) = (
    node.value
    for node in ast.walk(ast.parse(inspect.getsource(sys.modules[DllmConfig.__module__])))
    if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "DLLM_PARAMS"
)
value_of = ast.literal_eval
architectures = {
    value_of(key): {
        value_of(k): value_of(v)
        for k, v in zip(row.keys, row.values)
        if not isinstance(v, ast.Call)
    }
    for key, row in zip(table.keys, table.values)
}
answer = {
    "spellings": [action.option_strings for action in parser._actions],
    "parsed": parsed,
    "algorithms": sorted(algo_name_to_cls),
    "architectures": architectures,
    "separate_context": [
        name for name, each in algo_name_to_cls.items() if each.requires_separate_context_encoding
    ],
}
json.dump(answer, sys.stdout, default=str)
"""


def ask(commands: list[list[str]]) -> Any:
    """SGLang's options, dLLM algorithms and architectures, and each command line as SGLang parses it.

    Raises:
        AssertionError: SGLang does not accept one of them, or cannot be imported.
    """
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps(commands),
        env=os.environ | cpu.engine_environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
