"""Where the CPU time of a request goes: `python -m loadtest.hotpath`.

One process of each kind, a simulator for an engine, and clients that send chats of four blocks, 64 at a time,
JSON and streams in turns. Counted is the CPU time of each process, from /proc, without any sampler; then the
same once more with one, which says what Python was at. With another state of the code (`--before`, a folder)
both stand at once and are asked in turns, so that what else the machine does weighs on both.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp

from loadtest.hotpath.commands import Commands
from loadtest.hotpath.concerns import CONCERNS, by_concern, by_function, with_callees
from loadtest.hotpath.load import load
from loadtest.hotpath.sampled import Stack
from loadtest.hotpath.stand import PROCESSES, Stand

AT_ONCE = 64
KINDS = {"JSON": False, "stream": True}
SAMPLED = 3  # times as many requests as of a round: a sample is taken every few ms of CPU time at most
ALL = 0.97  # of the samples
ROWS = (*PROCESSES, "simulator", "clients")


class Measured:
    """Of one kind of request at one stand, a value a round."""

    def __init__(self) -> None:
        self.cpu_ms: dict[str, list[float]] = {row: [] for row in ROWS}
        self.per_s: list[float] = []

    def add(self, requests: int, seconds: float, before: dict[str, float], after: dict[str, float]) -> None:
        self.per_s.append(requests / seconds)
        for row in ROWS:
            self.cpu_ms[row].append(1000 * (after[row] - before[row]) / requests)

    def ms(self, rows: Sequence[str]) -> float:
        """Median over the rounds of what these processes take together for a request."""
        return statistics.median(map(sum, zip(*(self.cpu_ms[row] for row in rows), strict=True)))


async def measure(stands: dict[str, Stand], rounds: int, requests: int) -> dict[str, dict[str, Measured]]:
    """By kind and stand."""
    measured = {kind: {name: Measured() for name in stands} for kind in KINDS}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        for number in range(-1, rounds):  # the first warms up
            for kind, stream in KINDS.items():
                names = list(stands) if number % 2 else list(reversed(stands))
                for name in names:
                    stand = stands[name]
                    before = stand.cpu_s()
                    seconds = await load(
                        http, stand.gateways[0], at_once=AT_ONCE, requests=requests, stream=stream
                    )
                    await asyncio.sleep(0.2)  # what is still to be done for the last ones
                    if number >= 0:
                        measured[kind][name].add(requests, seconds, before, stand.cpu_s())
    return measured


def table(kind: str, measured: dict[str, Measured]) -> None:
    print(f"\n{kind}, {AT_ONCE} at a time: CPU ms a request, medians")
    print(f"{'':<28}" + "".join(f"{name:>10}" for name in measured))
    for label, rows in [*((row, (row,)) for row in ROWS), ("ours together", PROCESSES), ("all", ROWS)]:
        print(f"{label:<28}" + "".join(f"{each.ms(rows):10.3f}" for each in measured.values()))
    print(
        f"{'requests/s':<28}"
        + "".join(f"{statistics.median(each.per_s):10.0f}" for each in measured.values())
    )


async def profile(requests: int, most: int) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        for kind, stream in KINDS.items():
            async with Stand(sampled=True) as stand:
                url = stand.gateways[0]
                await load(http, url, at_once=AT_ONCE, requests=requests // 4, stream=stream)
                commands = Commands(stand.redis_url)
                await commands.begin()
                stand.begin()
                await load(http, url, at_once=AT_ONCE, requests=requests, stream=stream)
                samples = await stand.samples()
                print(f"\n{kind}: what Valkey was asked, for each request")
                for name, calls, us in (await commands.end())[:most]:
                    print(f"  {calls / requests:6.2f} x {us / calls:4.0f} us  {name}")
            for service, found in samples.items():
                describe(f"{kind}: the {service}", found, most)


def describe(title: str, samples: list[tuple[Stack, int]], most: int) -> None:
    total = sum(count for _, count in samples)
    print(f"\n{title}, {total} samples")
    for heading, counts, rows in (
        ("by concern", by_concern(samples), len(CONCERNS) + 1),
        ("by function, C code that it calls included", by_function(samples), most),
        ("by function, with all that it calls", with_callees(samples), most),
    ):
        print(f"  {heading}")
        # What is in every sample is how the process was started.
        shown = [(name, count) for name, count in counts.most_common() if count < ALL * total]
        for name, count in shown[:rows]:
            print(f"  {count / total:6.1%}  {name}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=1000, help="of each kind, in each round")
    parser.add_argument("--before", type=Path, help="a folder with another state of the code")
    parser.add_argument("--functions", type=int, default=12, help="shown of each process; 0: no profile")
    arguments = parser.parse_args()
    async with AsyncExitStack() as stack:
        stands = {}
        if arguments.before:
            stands["before"] = await stack.enter_async_context(Stand(arguments.before.resolve()))
        stands["now"] = await stack.enter_async_context(Stand())
        for kind, measured in (await measure(stands, arguments.rounds, arguments.requests)).items():
            table(kind, measured)
    if arguments.functions:
        await profile(SAMPLED * arguments.requests, arguments.functions)


if __name__ == "__main__":
    asyncio.run(main())
