"""What the stack costs over the bare engine: `python -m loadtest.overhead`.

The same streamed chat goes to the gateway and to the engine's own port, alternating within each
round and changing who is first, so that both see the same machine and the same prefix cache. Prints
TTFT and end-to-end time (median and 90th percentile) and tokens per second at each concurrency, the
difference, the resident memory of every process, and the time from the start to the first answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from dataclasses import dataclass, field

import aiohttp

from loadtest.local_stack import LocalStack


@dataclass
class Timing:
    """One answer: seconds from sending the request to the first text, and to the end, and its tokens."""

    ttft_s: float
    total_s: float
    tokens: int


@dataclass
class Side:
    """What one of the two, the stack or the engine, did at one concurrency."""

    answers: list[Timing] = field(default_factory=list)
    busy_s: float = 0.0  # sum of its batches' durations

    def milliseconds(self, name: str, quantile: int) -> float:
        values: list[float] = [getattr(answer, name) * 1000 for answer in self.answers]
        return statistics.quantiles(values, n=100, method="inclusive")[quantile - 1]

    @property
    def tokens_per_s(self) -> float:
        return sum(answer.tokens for answer in self.answers) / self.busy_s


async def chat(session: aiohttp.ClientSession, url: str, model: str, text: str, max_tokens: int) -> Timing:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    began = time.perf_counter()
    ttft_s, last = 0.0, b""
    async with session.post(f"{url}/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.content:
            if not line.startswith(b"data: {"):
                continue
            last = line
            if not ttft_s and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                ttft_s = time.perf_counter() - began
    return Timing(ttft_s, time.perf_counter() - began, json.loads(last[6:])["usage"]["completion_tokens"])


async def measure(
    gateway: str, engine: str, rounds: int, concurrency: int, max_tokens: int
) -> tuple[Side, Side]:
    """The stack's side and the engine's."""
    sides = {gateway: Side(), engine: Side()}
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{gateway}/v1/models") as response:
            model = (await response.json())["data"][0]["id"]
        for number in range(-1, rounds):  # round -1 warms up
            order = [gateway, engine] if number % 2 else [engine, gateway]
            for url in order:
                starts = (100 * (number + 2) + client for client in range(concurrency))
                texts = [f"Count from {start} to {start + 99}." for start in starts]
                began = time.perf_counter()
                batch = await asyncio.gather(*(chat(session, url, model, text, max_tokens) for text in texts))
                if number >= 0:
                    sides[url].answers += batch
                    sides[url].busy_s += time.perf_counter() - began
    return sides[gateway], sides[engine]


def table(concurrency: int, stack: Side, engine: Side) -> None:
    for label, name in (("TTFT", "ttft_s"), ("end to end", "total_s")):
        for quantile in (50, 90):
            through, direct = (side.milliseconds(name, quantile) for side in (stack, engine))
            head = f"c={concurrency:<3} {label:<10} p{quantile}, ms"
            print(f"{head}  {through:8.1f}  {direct:8.1f}  {through - direct:+7.1f}  {through / direct:5.3f}")
    through, direct = stack.tokens_per_s, engine.tokens_per_s
    head = f"c={concurrency:<3} tokens/s           "
    print(f"{head}  {through:8.0f}  {direct:8.0f}  {through - direct:+7.0f}  {through / direct:5.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4])
    arguments = parser.parse_args()
    with LocalStack() as stack:
        print(f"From the start to the first answer: {stack.start_s:.1f} s\n")
        print("                             stack    engine     more  ratio")
        for concurrency in arguments.concurrency:
            urls = stack.gateway_url, stack.engine_url
            sides = asyncio.run(measure(*urls, arguments.rounds, concurrency, arguments.max_tokens))
            table(concurrency, *sides)
        print("\nresident memory")
        for name, process in stack.processes().items():
            print(f"{name:<40}  {process.memory_info().rss / 2**20:7.0f} MiB")


if __name__ == "__main__":
    main()
