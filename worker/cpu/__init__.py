"""What stock SGLang needs where there is no GPU. Nothing of it is active beside one.

- `site/`: start-up code of the engine's processes, on their PYTHONPATH only.
- `stand_in/`: a replacement for SGLang's compiled kernels.
- `routed_scaling`: a hook that repairs SGLang's mixture of experts on a CPU.
"""

from __future__ import annotations

import os
from pathlib import Path

_SITE = Path(__file__).resolve().parent / "site"


def engine_environment() -> dict[str, str]:
    """Variables to add to the environment of an engine that runs on a CPU."""
    inherited = os.environ.get("PYTHONPATH")
    return {
        # SGLang's own switch to its CPU platform.
        "SGLANG_USE_CPU_ENGINE": "1",
        "PYTHONPATH": os.pathsep.join([str(_SITE), inherited] if inherited else [str(_SITE)]),
        # Expert routing is marked for torch.compile, which on a CPU calls a C++ compiler in the middle
        # of the first request: slow, and impossible where there is none.
        "TORCH_COMPILE_DISABLE": "1",
        "TORCHDYNAMO_DISABLE": "1",
    }
