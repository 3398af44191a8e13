"""What the stack costs over the bare engine: `python -m loadtest.overhead`.

The same streamed chat goes to the engine's own port, to a gateway, and to one that wants keys and counts
limits, in turns within each round and changing who is first, so that all see the same machine. On SGLang's
CPU engine, and on a simulator whose pace is steady. Prints TTFT and end-to-end time (median and 90th
percentile) and tokens per second at each concurrency, what the stack has added to them, where the time to the
first text goes, and the resident memory of every process.
"""

from __future__ import annotations

import argparse
import asyncio
import time

import aiohttp

from loadtest.overhead.phases import PHASES, Monitor
from loadtest.overhead.stands import ENGINE, GUARDED, OPEN, Stand, cpu_engine, simulator
from loadtest.overhead.timing import Measured, Side, Timing, chat

STANDS = {"cpu": cpu_engine, "simulator": simulator}
MOST_MS = 5.0  # that TTFT may grow by at concurrency 1, keys and limits included


def question(number: int) -> str:
    """No two begin alike, so that no prefix cache helps one side."""
    return f"Count from {100 * number} to {100 * number + 99}."


async def measure(stand: Stand, rounds: int, concurrency: int, max_tokens: int) -> dict[str, Measured]:
    """By the name of the side."""
    measured = {side.name: Measured() for side in stand.sides}
    async with aiohttp.ClientSession() as session:
        for number in range(-2, rounds):  # the first two warm up
            turn = number % len(stand.sides)
            for side in stand.sides[turn:] + stand.sides[:turn]:
                texts = [question((number + 3) * concurrency + client) for client in range(concurrency)]
                began = time.perf_counter()
                batch = await asyncio.gather(*(chat(session, side, text, max_tokens) for text in texts))
                if number >= 0:
                    measured[side.name].answers += batch
                    measured[side.name].busy_s += time.perf_counter() - began
    return measured


async def breakdown(stand: Stand, side: Side, rounds: int, max_tokens: int) -> dict[str, float]:
    monitor = Monitor(stand.redis_url)
    answers: list[Timing] = []
    async with aiohttp.ClientSession() as session, monitor.watching():
        for number in range(rounds):
            answers.append(await chat(session, side, question(5000 + number), max_tokens))
    return monitor.phases(answers)


def table(concurrency: int, measured: dict[str, Measured]) -> None:
    engine = measured[ENGINE]
    for label, name in (("TTFT", "ttft_s"), ("end to end", "total_s")):
        for quantile in (50, 90):
            direct = engine.milliseconds(name, quantile)
            cells = f"{direct:8.1f}"
            for side in (OPEN, GUARDED):
                through = measured[side].milliseconds(name, quantile)
                cells += f"  {through:8.1f} {through - direct:+6.1f}"
            print(f"c={concurrency:<3} {label:<10} p{quantile}, ms  {cells}")
    cells = f"{engine.tokens_per_s:8.0f}"
    for side in (OPEN, GUARDED):
        through = measured[side].tokens_per_s
        cells += f"  {through:8.0f} {through - engine.tokens_per_s:+6.0f}"
    print(f"c={concurrency:<3} tokens/s            {cells}")


async def on(stand: Stand, arguments: argparse.Namespace) -> float:
    """Prints all of one stand, and returns what TTFT has grown by at most at concurrency 1, in ms."""
    print(f"{'':<24} {ENGINE:>8}  {OPEN:>8} {'more':>6}  {GUARDED:>8}+ {'more':>5}")
    more = 0.0
    for concurrency in arguments.concurrency:
        measured = await measure(stand, arguments.rounds, concurrency, arguments.max_tokens)
        table(concurrency, measured)
        if concurrency == 1:
            alone, guarded = (measured[name].milliseconds("ttft_s", 50) for name in (ENGINE, GUARDED))
            more = guarded - alone
    print("\nwhere the time to the first text goes, median ms")
    sides = [side for side in stand.sides if side.name != ENGINE]
    columns = [await breakdown(stand, side, arguments.rounds, arguments.max_tokens) for side in sides]
    for name, what in PHASES.items():
        cells = " ".join(f"{column[name]:9.2f}" for column in columns)
        print(f"{name:<40} {cells}   {what}")
    for note in ["", *stand.notes]:
        print(note)
    return more


async def main() -> int:
    parser = argparse.ArgumentParser(description="What the stack costs over the bare engine.")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--on", choices=list(STANDS), nargs="+", default=list(STANDS))
    arguments = parser.parse_args()
    grown: dict[str, float] = {}
    for name in arguments.on:
        async with STANDS[name]() as stand:
            print(f"\n{name}: {(STANDS[name].__doc__ or '').splitlines()[0]}\n")
            grown[name] = await on(stand, arguments)
    for name, more in grown.items():
        print(
            f"{name}: keys, limits, queue and router add {more:.1f} ms to TTFT at c=1 (at most {MOST_MS:g})"
        )
    return int(max(grown.values()) > MOST_MS)


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
