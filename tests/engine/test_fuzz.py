"""Random requests, legal and illegal: an answer or a refusal each, and an engine that is as before."""

from __future__ import annotations

import os
from collections.abc import Callable

import httpx
import pytest
import tokenizers

from loadtest.fuzz.mixes import Server
from loadtest.fuzz.run import ANSWERED, REFUSED, run
from tests.waiting import eventually

COUNT = int(os.environ.get("DLLM_TEST_FUZZ", "300"))
SEED = int(os.environ.get("DLLM_TEST_FUZZ_SEED", "1"))

pytestmark = pytest.mark.timeout(600 + COUNT)


async def test_random_requests(
    engine: httpx.AsyncClient,
    engine_url: str,
    tokenizer: tokenizers.Tokenizer,
    sglang: str,
    record: Callable[[str], None],
) -> None:
    server = Server(engine_url, "tiny-llada2", tokenizer.get_vocab_size(), gateway=False)
    before = await _answer(engine)
    tally = await run(server, SEED, range(COUNT))
    record(f"SGLang {sglang}: {tally.table(server, SEED)}")
    assert tally.offences == []
    assert tally.ends[ANSWERED] > COUNT / 10
    assert tally.ends[REFUSED] > COUNT / 10
    await eventually(lambda: _holds_nothing(engine))
    assert await _answer(engine) == before
    (await engine.get("/health_generate")).raise_for_status()


async def _answer(http: httpx.AsyncClient) -> list[int]:
    sampling = {"temperature": 0, "max_new_tokens": 70, "ignore_eos": True}
    body = {"input_ids": list(range(10, 50)), "sampling_params": sampling}
    ids: list[int] = (await http.post("/generate", json=body)).raise_for_status().json()["output_ids"]
    return ids


async def _holds_nothing(http: httpx.AsyncClient) -> bool:
    load = (await http.get("/v1/loads")).json()["loads"][0]
    return bool(load["num_used_tokens"] == 0 and load["num_waiting_reqs"] == 0)
