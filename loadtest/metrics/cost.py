"""What instrumentation costs a gateway: `python -m loadtest.metrics.cost`.

Three gateways of one stack, one simulator behind them: one as it is, one with nothing to measure by, one that
also sends every request's trace. All get the same load at once, so that what else the machine does weighs on
each. Counted is the CPU time of the gateway's process alone, all its threads, to the nanosecond.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from dllm_stack.local.service import free_port
from loadtest.fleet import POOL, Fleet

PACE = ["--slots", "64", "--block-ms", "20", "--prefill-ms", "0"]
AT_ONCE, TOKENS = 8, 128  # to each
MOST = 1.05
SCRAPES = 10
BARE, FULL, TRACED = "without", "as it is", "with traces"
TRACES = "DLLM_TRACING__ENDPOINT"


class Stands(Fleet):
    """A fleet with a gateway of each kind. `urls`: of each."""

    def __init__(self, collector: str) -> None:
        super().__init__(pace=PACE)
        self.urls = {FULL: self.gateways[0]}
        self.names = {FULL: "gateway-0"}
        bare, traced = "loadtest.metrics.bare_gateway", "dllm_stack.cli"
        self._stand(BARE, "bare", [bare], {})
        self._stand(TRACED, "traced", [traced, "gateway"], {TRACES: collector})

    def _stand(self, stand: str, name: str, module: list[str], env: dict[str, str]) -> None:
        url = f"http://127.0.0.1:{(port := free_port())}"
        argv = [sys.executable, "-m", *module]
        self._add(name, argv, f"{url}/readyz", {"DLLM_GATEWAY__PORT": str(port)} | env)
        self.urls[stand], self.names[stand] = url, name

    def cpu_s(self, stand: str) -> float:
        """That its gateway has used so far."""
        threads = Path(f"/proc/{self.members[self.names[stand]].pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


async def load(http: aiohttp.ClientSession, url: str, requests: int) -> None:
    body: dict[str, Any] = {"model": POOL, "max_tokens": TOKENS, "stream": True}
    body |= {"messages": [{"role": "user", "content": "Say something."}]}
    waiting = iter(range(requests))

    async def client() -> None:
        for _ in waiting:
            async with http.post(f"{url}/v1/chat/completions", json=body) as response:
                response.raise_for_status()
                await response.read()

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))


async def run(rounds: int, requests: int) -> bool:
    sink = web.Application()

    async def take(request: web.Request) -> web.Response:
        await request.read()
        return web.Response()

    sink.add_routes([web.post("/v1/traces", take)])
    runner = web.AppRunner(sink, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    stands = [BARE, FULL, TRACED]
    ms: dict[str, list[float]] = {stand: [] for stand in stands}
    try:
        async with (
            Stands(f"http://127.0.0.1:{runner.addresses[0][1]}") as fleet,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http,
        ):
            for stand in stands:
                await load(http, fleet.urls[stand], AT_ONCE)
            for number in range(rounds):
                before = {stand: fleet.cpu_s(stand) for stand in stands}
                await asyncio.gather(*(load(http, fleet.urls[stand], requests) for stand in stands))
                for stand in stands:
                    ms[stand].append(1000 * (fleet.cpu_s(stand) - before[stand]) / requests)
                told = ", ".join(f"{stand} {ms[stand][-1]:.3f} ms" for stand in stands)
                print(f"round {number + 1}: CPU of the gateway for a request: {told}", flush=True)
            idle_s = fleet.cpu_s(FULL)
            for _ in range(SCRAPES):
                async with http.get(f"{fleet.urls[FULL]}/metrics") as response:
                    await response.read()
            scrape_ms = 1000 * (fleet.cpu_s(FULL) - idle_s) / SCRAPES
    finally:
        await runner.cleanup()
    print(f"a scrape of /metrics: {scrape_ms:.1f} ms of CPU, every 15 s {scrape_ms / 15000:.2%} of a core")
    ratios = {
        stand: [this / bare for this, bare in zip(ms[stand], ms[BARE], strict=True)]
        for stand in (FULL, TRACED)
    }
    for stand, found in ratios.items():
        print(
            f"{stand:12} median {statistics.median(ms[stand]):.3f} ms, times that without"
            f" {statistics.median(ms[BARE]):.3f} ms: median {statistics.median(found):.3f},"
            f" {min(found):.3f} to {max(found):.3f}"
        )
    return statistics.median(ratios[FULL]) <= MOST


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=400, help="to each, in each round")
    arguments = parser.parse_args()
    ok = asyncio.run(run(arguments.rounds, arguments.requests))
    print(f"metrics and logs cost {'at most' if ok else 'MORE than'} {MOST:.2f} times what there is without")
    sys.exit(not ok)


if __name__ == "__main__":
    main()
