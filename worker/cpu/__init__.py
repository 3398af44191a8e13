"""What stock SGLang needs where there is no GPU. Nothing of it is active beside one.

- `site/`: start-up code of the engine's processes, on their PYTHONPATH only.
- `stand_in/`: a replacement for SGLang's compiled kernels.
- `models/`: the models that SGLang imports first.
- `routed_scaling`: a hook that repairs SGLang's mixture of experts on a CPU.
"""

from __future__ import annotations

import os
from pathlib import Path

_SITE = Path(__file__).resolve().parent / "site"


def cores() -> list[int]:
    """The numbers of those that this process may use."""
    return sorted(os.sched_getaffinity(0))


def engine_environment(ranks: int = 1) -> dict[str, str]:
    """Variables to add to the environment of an engine that runs on a CPU.

    What this process has set itself of those in `defaults` is kept.

    Args:
        ranks: processes that share the model, as GPUs would.
    """
    inherited = os.environ.get("PYTHONPATH")
    defaults = {
        # A second thread gains a small model nothing, and whenever another process takes its core the
        # first one waits for it: four times slower beside one busy process, against no difference.
        "OMP_NUM_THREADS": "1",
        # SGLang otherwise imports its 150 model files at every start: a second, and 40 MB.
        "SGLANG_EXTERNAL_MODEL_PACKAGE": "worker.cpu.models",
    }
    if 1 < ranks <= len(cores()):
        # SGLang otherwise wants a NUMA node for each rank.
        defaults["SGLANG_CPU_OMP_THREADS_BIND"] = _bound(cores(), ranks)
        # Each looks at the same memory, at its own moment: who takes some in between would end the start.
        defaults["SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK"] = "0"
    return {
        # SGLang's own switch to its CPU platform.
        "SGLANG_USE_CPU_ENGINE": "1",
        "PYTHONPATH": os.pathsep.join([str(_SITE), inherited] if inherited else [str(_SITE)]),
        # SGLang's expert routing is marked for torch.compile. On a CPU that calls a C++ compiler in the
        # middle of the first request, which then takes 15 s instead of 0.1 s, and fails without one.
        "TORCHDYNAMO_DISABLE": "1",
        **{name: os.environ.get(name, value) for name, value in defaults.items()},
    }


def _bound(cores: list[int], ranks: int) -> str:
    """Each rank's own cores, as many for one as for the other."""
    share = len(cores) // ranks
    own = (cores[rank * share :][:share] for rank in range(ranks))
    return "|".join(",".join(map(str, each)) for each in own)
