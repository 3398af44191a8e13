"""Random requests, legal and illegal, to an engine of its own; then SIGTERM ends it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
import tokenizers

from dllm_stack.local.service import free_port
from loadtest.fuzz.mixes import Server
from loadtest.fuzz.run import ANSWERED, REFUSED, run
from tests.engine.conftest import RUNNING, engine_process, wait_until_up
from tests.waiting import eventually
from worker import tiny_checkpoint

COUNT = int(os.environ.get("DLLM_TEST_FUZZ", "300"))
SEED = int(os.environ.get("DLLM_TEST_FUZZ_SEED", "1"))
ENDS_WITHIN_S = 60

pytestmark = [
    pytest.mark.timeout(600 + COUNT),
    pytest.mark.skipif(RUNNING is not None, reason="ends the engine"),
]


@dataclass
class Engine:
    url: str
    process: psutil.Process
    log: Path


@pytest.fixture
def own_engine(sglang: str, tmp_path: Path) -> Iterator[Engine]:
    port = free_port()
    location = tiny_checkpoint.write(tmp_path / "tiny")
    with engine_process(location, port, tmp_path, sglang=sglang) as process:
        url = f"http://127.0.0.1:{port}"
        wait_until_up(process, url, tmp_path / "engine.log")
        yield Engine(url, psutil.Process(process.pid), tmp_path / "engine.log")


async def test_random_requests(own_engine: Engine, sglang: str, record: Callable[[str], None]) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(own_engine.log.parent / "tiny/tokenizer.json"))
    server = Server(own_engine.url, "tiny-llada2", tokenizer.get_vocab_size(), gateway=False)
    async with httpx.AsyncClient(base_url=own_engine.url, timeout=60) as http:
        before = await _answer(http)
        tally = await run(server, SEED, range(COUNT))
        record(f"SGLang {sglang}: {tally.table(server, SEED)}")
        assert tally.offences == []
        assert tally.ends[ANSWERED] > COUNT / 10
        assert tally.ends[REFUSED] > COUNT / 10
        await eventually(lambda: _holds_nothing(http))
        assert await _answer(http) == before
        (await http.get("/health_generate")).raise_for_status()
    _ends(own_engine)


async def _answer(http: httpx.AsyncClient) -> list[int]:
    sampling = {"temperature": 0, "max_new_tokens": 70, "ignore_eos": True}
    body = {"input_ids": list(range(10, 50)), "sampling_params": sampling}
    ids: list[int] = (await http.post("/generate", json=body)).raise_for_status().json()["output_ids"]
    return ids


async def _holds_nothing(http: httpx.AsyncClient) -> bool:
    load = (await http.get("/v1/loads")).json()["loads"][0]
    return bool(load["num_used_tokens"] == 0 and load["num_waiting_reqs"] == 0)


def _ends(engine: Engine) -> None:
    """SIGTERM ends all of its processes, and of themselves."""
    processes = [engine.process, *engine.process.children(recursive=True)]
    engine.process.send_signal(signal.SIGTERM)
    _, left = psutil.wait_procs(processes, timeout=ENDS_WITHIN_S)
    assert left == [], engine.log.read_text(errors="replace")[-2000:]
