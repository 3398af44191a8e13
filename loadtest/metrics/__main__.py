"""Do the metrics say what clients have seen? `python -m loadtest.metrics`.

Clients arrive at random, a little faster than a paced simulator can serve them, so that a queue builds up.
Each notes when each of its events came, and how many tokens were in it. What the histograms of gateway and
router then say of the same requests is compared: counts and tokens must be equal, a quantile must be in the
same bucket as the clients' or in the one beside it.

A client cannot see the queue. It knows the engine's pace, and takes what its first block came later for the
wait in the queue: with what the stack itself takes, a few milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import aiohttp
import msgspec

from loadtest.fleet import POOL, Fleet
from loadtest.metrics.seen import BLOCK_S, PREFILL_S, Seen, quantile
from loadtest.metrics.told import Metrics, Told
from loadtest.simulator.voice import BLOCK

SERVICES = "gateway-0", "router-0", "worker-0"
SLOTS = 16
PACE = ["--slots", str(SLOTS), "--block-ms", str(BLOCK_S * 1000), "--prefill-ms", str(PREFILL_S * 1000)]
QUANTILES = (0.5, 0.9, 0.95, 0.99)
OVERLOAD = 1.15  # of what the simulator can serve
MOST_TOKENS = 160
REFUSED = 10
HEARD_S = 60.0
_DISPATCHES = "dllm_queue_wait_seconds_count"


async def client(http: aiohttp.ClientSession, url: str, dice: random.Random, seen: Seen) -> None:
    # Its events tell of every block, with a text or without.
    body: dict[str, Any] = {
        "model": POOL,
        "input_ids": [dice.randrange(100, 400) for _ in range(dice.randrange(4, 200))],
        "sampling_params": {"max_new_tokens": dice.randrange(1, MOST_TOKENS)},
        "stream": True,
    }
    sent, tokens, events = time.monotonic(), 0, []
    async with http.post(f"{url}/generate", json=body) as response:
        response.raise_for_status()
        async for line in response.content:
            if not line.startswith(b"data: {"):
                continue
            at, meta = time.monotonic(), msgspec.json.decode(line[6:])["meta_info"]
            if (more := meta["completion_tokens"] - tokens) > 0:
                events.append((at, more))
                tokens += more
    seen.answer(sent, events, time.monotonic(), len(body["input_ids"]))


async def refused(http: aiohttp.ClientSession, url: str) -> None:
    async with http.post(f"{url}/v1/completions", json={"model": POOL, "prompt": 7}) as response:
        assert response.status == 400


def compare(what: str, told: Told, values: Sequence[float]) -> bool:
    """Prints the quantiles of both, and says whether they agree."""
    print(f"{what}: {told.count:g} observations, the clients have {len(values)}")
    ok = told.count == len(values)
    for share in QUANTILES:
        value, bucket = quantile(values, share), told.bucket(share)
        apart = abs(told.bucket_of(value) - bucket)
        print(
            f"  {share:4.0%}  clients {1000 * value:9.2f} ms"
            f"  bucket {told.shown(bucket):>12} ms  {apart} apart"
        )
        ok &= apart <= 1
    return ok


def equal(what: str, told: float, seen: float) -> bool:
    print(f"  {what:34} {told:9g} told {seen:9g} seen")
    return told == seen


async def run(requests: int) -> bool:
    dice, seen = random.Random(0), Seen()
    async with (
        Fleet(pace=PACE) as fleet,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http,
    ):
        url = fleet.gateways[0]

        async def metrics(member: str) -> Metrics:
            probe = fleet.members[member].probe
            assert probe is not None
            async with http.get(probe.replace("/readyz", "/metrics")) as response:
                return Metrics(await response.text())

        async def dispatched(jobs: int) -> None:
            """The router hears in a while of those that went to a slot as they were admitted."""
            async with asyncio.timeout(HEARD_S):
                while (await metrics("router-0")).total(_DISPATCHES) < jobs:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)

        await client(http, url, dice, Seen())  # the first of all opens connections
        await dispatched(1)
        before = [await metrics(name) for name in SERVICES]
        answer_s = BLOCK_S * (MOST_TOKENS / 2 / BLOCK + 1)
        tasks = []
        for _ in range(requests):
            tasks.append(asyncio.create_task(client(http, url, dice, seen)))
            await asyncio.sleep(dice.expovariate(OVERLOAD * SLOTS / answer_s))
        await asyncio.gather(*tasks)
        for _ in range(REFUSED):
            await refused(http, url)
        await dispatched(1 + requests)
        after = [await metrics(name) for name in SERVICES]
    return report(seen, *(now.since(then) for now, then in zip(after, before, strict=True)))


def report(seen: Seen, gateway: Metrics, router: Metrics, worker: Metrics) -> bool:
    checks = [
        compare("time to first token", gateway.histogram("dllm_time_to_first_token_seconds"), seen.first),
        compare(
            "inter-token latency", gateway.histogram("dllm_inter_token_latency_seconds"), seen.token_gaps
        ),
        compare("between two chunks", gateway.histogram("dllm_inter_chunk_seconds"), seen.gaps),
        compare("request, whole", gateway.histogram("dllm_request_seconds", outcome="completed"), seen.whole),
        compare("wait in the queue", router.histogram("dllm_queue_wait_seconds"), seen.wait),
    ]
    print("counts")
    tokens, answers = sum(seen.chunks), len(seen.first)
    checks += [
        equal("answers completed", gateway.total("dllm_requests_total", outcome="completed"), answers),
        equal("requests refused", gateway.total("dllm_requests_total", code="invalid_value"), REFUSED),
        equal("tokens of answers, gateway", gateway.total("dllm_chunk_tokens_sum"), tokens),
        equal("chunks, gateway", gateway.total("dllm_chunk_tokens_count"), len(seen.chunks)),
        equal("tokens of prompts, gateway", gateway.total("dllm_prompt_tokens_total"), seen.prompt_tokens),
        equal("tokens committed, worker", worker.total("dllm_engine_committed_tokens_total"), tokens),
        equal("attempts completed, worker", worker.total("dllm_worker_runs_total"), answers),
        equal("dispatches, router", router.total(_DISPATCHES), answers),
    ]
    print("where the time to first token goes, mean")
    parts = gateway.by("dllm_time_to_first_token_part_seconds_sum", "part")
    for part, seconds in parts.items():
        print(f"  {part:12} {1000 * seconds / answers:9.2f} ms")
    whole = gateway.total("dllm_time_to_first_token_seconds_sum")
    print(
        f"  {'together':12} {1000 * sum(parts.values()) / answers:9.2f} ms of {1000 * whole / answers:.2f} ms"
    )
    checks.append(abs(sum(parts.values()) - whole) < 1e-3 * whole)
    return all(checks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=600)
    ok = asyncio.run(run(parser.parse_args().requests))
    print("\nthe metrics say what the clients have seen" if ok else "\nNOT what the clients have seen")
    sys.exit(not ok)


if __name__ == "__main__":
    main()
