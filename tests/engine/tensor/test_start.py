"""A rank that dies while its engine loads, on both SGLangs, takes the engine with it: make show-tensor."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from dllm_stack.local.service import free_port
from tests.engine.running import INSTALLED, OLDEST, START_S, engine_process
from tests.waiting import eventually
from tests.worker.conftest import engine_children

pytestmark = [
    pytest.mark.skipif("DLLM_TEST_TENSOR" not in os.environ, reason="takes minutes: make show-tensor"),
    pytest.mark.timeout(3 * START_S),
]
RANKS = 2


@pytest.mark.parametrize("sglang", [OLDEST, INSTALLED])
@pytest.mark.parametrize(
    "after", ["", "Init (torch distributed|parallel) begin"], ids=["at once", "as ranks meet"]
)
async def test_a_rank_that_dies_while_it_loads_ends_the_engine(
    model_folder: Path, tmp_path: Path, sglang: str, after: str, record: Callable[[str], None]
) -> None:
    """A worker hears of it, and starts the engine again; left to itself, the other rank would wait."""
    log = tmp_path / "engine.log"
    with engine_process(model_folder, free_port(), tmp_path, sglang=sglang, tp=RANKS) as process:
        launcher = psutil.Process(process.pid)

        async def loads() -> bool:
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            # With its detokenizer, so that all have been started.
            said = log.read_text(errors="replace")
            return len(engine_children(launcher)) > RANKS and re.search(after, said) is not None

        await eventually(loads, within_s=START_S)
        engine_children(launcher)[1].kill()
        began = time.monotonic()
        await asyncio.to_thread(process.wait, START_S)
        when = "while the ranks meet" if after else "as soon as it runs"
        record(
            f"SGLang {sglang}, rank 1 killed {when}: the engine ends {time.monotonic() - began:.1f} s later"
        )
