"""What the stack costs over the bare engine: `python -m loadtest.overhead`.

The same streamed chat goes to the gateway and to the engine's own port, alternating within each
round and changing who is first, so that both see the same machine and the same prefix cache. Prints
TTFT and end-to-end medians at each concurrency, the difference, the resident memory of every process,
and the time from the start to the first answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from dataclasses import dataclass

import aiohttp

from loadtest.local_stack import LocalStack


@dataclass
class Timing:
    """Seconds from sending the request to the first text, and to the end."""

    ttft_s: float
    total_s: float


async def chat(session: aiohttp.ClientSession, url: str, model: str, text: str, max_tokens: int) -> Timing:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
    }
    began = time.perf_counter()
    ttft_s = 0.0
    async with session.post(f"{url}/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.content:
            if not line.startswith(b"data: {") or ttft_s:
                continue
            choices = json.loads(line[6:])["choices"]
            if choices and choices[0]["delta"].get("content"):
                ttft_s = time.perf_counter() - began
    return Timing(ttft_s, time.perf_counter() - began)


async def measure(
    gateway: str, engine: str, rounds: int, concurrency: int, max_tokens: int
) -> dict[str, list[Timing]]:
    timings: dict[str, list[Timing]] = {gateway: [], engine: []}
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{gateway}/v1/models") as response:
            model = (await response.json())["data"][0]["id"]
        for number in range(-1, rounds):  # round -1 warms up
            order = [gateway, engine] if number % 2 else [engine, gateway]
            for url in order:
                texts = [f"Round {number}, client {client}: count." for client in range(concurrency)]
                batch = await asyncio.gather(*(chat(session, url, model, text, max_tokens) for text in texts))
                if number >= 0:
                    timings[url] += batch
    return timings


def table(concurrency: int, through: list[Timing], direct: list[Timing]) -> None:
    for label, field in (("TTFT", "ttft_s"), ("end to end", "total_s")):
        stack, bare = (
            statistics.median(getattr(timing, field) for timing in timings) * 1000
            for timings in (through, direct)
        )
        row = f"{stack:8.1f}  {bare:8.1f}  {stack - bare:+7.1f}  {stack / bare:5.3f}"
        print(f"c={concurrency:<3}{label:<10}  {row}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4])
    arguments = parser.parse_args()
    with LocalStack() as stack:
        print(f"From the start to the first answer: {stack.start_s:.1f} s\n")
        print("medians, ms             stack    engine     more  ratio")
        for concurrency in arguments.concurrency:
            timings = asyncio.run(
                measure(
                    stack.gateway_url, stack.engine_url, arguments.rounds, concurrency, arguments.max_tokens
                )
            )
            table(concurrency, timings[stack.gateway_url], timings[stack.engine_url])
        print("\nresident memory")
        for name, process in stack.processes().items():
            print(f"{name:<40}  {process.memory_info().rss / 2**20:7.0f} MiB")


if __name__ == "__main__":
    main()
