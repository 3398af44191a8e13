"""Random requests through the whole stack: each is answered or refused, and nothing of them is left."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import aiohttp
import pytest
import tokenizers

from dllm_stack.redis import Connections
from loadtest.fuzz.mixes import Server
from loadtest.fuzz.run import ANSWERED, REFUSED, run
from loadtest.local_stack import LocalStack
from tests.stack.conditions import AUTOREGRESSIVE, DIFFUSION, engine_tokens, no_jobs, running
from tests.waiting import eventually

# The engines take ten times as many, in tests/engine.
COUNT = int(os.environ.get("DLLM_TEST_FUZZ", "2000")) // 10
SEED = int(os.environ.get("DLLM_TEST_FUZZ_SEED", "1"))


@pytest.mark.timeout(300 + COUNT)
@pytest.mark.parametrize("kind", [DIFFUSION, AUTOREGRESSIVE])
async def test_random_requests(
    stack: LocalStack,
    http: aiohttp.ClientSession,
    redis: Connections,
    kind: str,
    record: Callable[[str], None],
) -> None:
    checkpoint = stack.checkpoints[(DIFFUSION, AUTOREGRESSIVE).index(kind)]
    vocabulary = tokenizers.Tokenizer.from_file(f"{checkpoint}/tokenizer.json").get_vocab_size()
    server = Server(stack.gateway_url, kind, vocabulary, gateway=True)
    tally = await run(server, SEED, range(COUNT))
    record(f"{kind}: {tally.table(server, SEED)}")
    assert tally.offences == []
    assert tally.ends[ANSWERED] > COUNT / 20
    assert tally.ends[REFUSED] > COUNT / 10

    async def engine_is_idle() -> bool:
        return await engine_tokens(http, stack) == 0

    async def no_leases() -> bool:
        return await running(redis) == 0

    await eventually(engine_is_idle)
    await eventually(partial(no_jobs, redis))
    await eventually(no_leases)
