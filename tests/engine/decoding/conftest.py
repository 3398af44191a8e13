"""An engine of each SGLang that decodes per request, with an algorithm of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dllm_stack.local.service import free_port
from tests.engine.conftest import engine_process, wait_until_up
from tests.engine.reference import Reference
from worker import tiny_checkpoint
from worker.engine.catalog import Dllm

OWN = Path(__file__).resolve().parents[3] / "docs" / "examples" / "leftmost.py"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.write(tmp_path_factory.mktemp("decoding") / "tiny")


@pytest.fixture(scope="session")
def model(tiny: Path) -> Reference:
    return Reference(tiny)


@pytest.fixture(scope="module")
def url(sglang: str, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    run_dir, port = tmp_path_factory.mktemp("engine"), free_port()
    config = {
        "default": {"algorithm": "LowConfidence", "threshold": 0.3},
        "slots": 8,
        "steps_per_round": 4,
        "prompt_rows": 16,
        "mixed_prompt_rows": 8,
        "algorithms": {"Leftmost": str(OWN)},
    }
    dllm = Dllm(algorithm="PerRequest", config=config)
    rows = ["--max-running-requests", "24"]
    with engine_process(tiny, port, run_dir, dllm, sglang=sglang, engine_args=rows) as process:
        wait_until_up(process, f"http://127.0.0.1:{port}", run_dir / "engine.log")
        yield f"http://127.0.0.1:{port}"
