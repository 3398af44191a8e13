"""This stack beside other projects' gateways, in one run: `python -m loadtest.versus`.

Every gateway stands in front of the same simulator of an engine, on the same two cores, and they take turns,
in another order each time. Measured is what each adds to the engine's own times, how many requests a second
it lets through, and what CPU time that costs it. Then each is put through trials, with two engines behind it:
a crowd of clients that leave; more requests than the engines can answer, of two tenants; an engine that is
killed. Every answer is compared with the one that the engine gives by itself. What is not installed, or does
not start, is named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import uvloop

from loadtest.peers import AbsentError
from loadtest.versus import report, trial
from loadtest.versus.herd import herd
from loadtest.versus.killed import killed
from loadtest.versus.overload import overload
from loadtest.versus.results import Results, Trials
from loadtest.versus.speed import PACES, WARM_UP_S, Pace, Speed
from loadtest.versus.stands import DIRECT, NAMES, Stand, UnusableError, engines, stand
from loadtest.versus.targets import targets

ROUNDS = 3
CORES = 2
PARTS = ["speed", "trials"]


def say(text: str) -> None:
    print(text, flush=True)


async def compare_speed(
    results: Results, names: list[str], pace: Pace, rounds: int, warm_up_s: float = WARM_UP_S
) -> None:
    speed = await Speed.prepared(pace.workloads)
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(engines(1, pace.arguments))
        stands: list[Stand] = []
        for name in names:
            if name not in results.skipped:
                try:
                    stands.append(await stack.enter_async_context(stand(name, engine.urls)))
                except (AbsentError, UnusableError) as error:
                    skip(results, name, error)
        say(f"\n{pace.told}; {rounds} rounds")
        await speed.rounds(stands, rounds, warm_up_s, lambda number: say(f"  round {number} is over"))
        for each in stands:
            results.versions[each.name] = each.version
            results.memory[each.name] = each.memory()
    results.speed |= speed.measured
    for workload in pace.workloads:
        say("\n" + report.speed(results, workload.name))


def skip(results: Results, name: str, error: Exception) -> None:
    results.skipped[name] = str(error)
    say(f"skipped: {error}")


async def try_out(results: Results, names: list[str]) -> None:
    say(f"\ntrials: {trial.ENGINES} engines of {trial.SLOTS} slots, {trial.BLOCK_S * 1000:g} ms a block")
    for name in names:
        if name == DIRECT or name in results.skipped:
            continue
        try:
            async with (
                engines(trial.ENGINES, trial.PACE) as behind,
                stand(name, behind.urls) as gateway,
                aiohttp.ClientSession() as http,
            ):
                left = await herd(gateway.url, behind.urls)
                await trial.falls(http, behind.urls, 0)
                flooded = await overload(gateway.url)
                await trial.falls(http, behind.urls, 0)
                lost = await killed(gateway.url, behind.members[0])
        except (AbsentError, UnusableError) as error:
            skip(results, name, error)
        else:
            results.versions[name] = gateway.version
            results.trials[name] = Trials(left, flooded, lost)
            say(f"  {name} is through")
    say("\n" + report.trials(results))


async def run(names: list[str], rounds: int, parts: list[str]) -> Results:
    results = Results()
    if "speed" in parts:
        for pace in PACES:
            await compare_speed(results, names, pace, rounds)
        say("\nms added to the median TTFT; or requests/s, and ms of the gateway's CPU time for one")
        say(report.summary(results, [workload for pace in PACES for workload in pace.workloads]))
    if "trials" in parts:
        await try_out(results, names)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gateways", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument(
        "--cores", type=int, default=CORES, help="for all together, the simulator and the clients"
    )
    parser.add_argument("--json", type=Path, help="a file for the figures")
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[: arguments.cores]
    os.sched_setaffinity(0, cores)  # and what is started from here
    began = time.monotonic()
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    machine = f"{len(cores)} cores, {platform.machine()}, Python {platform.python_version()}"
    say(f"{time.strftime('%F %R')}, {machine}, load before: {load}")
    results = uvloop.run(run(arguments.gateways, arguments.rounds, arguments.parts))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results.document(), indent=1) + "\n")
    say(f"\n{time.monotonic() - began:.0f} s")
    for name, why in results.skipped.items():
        say(f"skipped      {name}: {why}")
    found = targets(results)
    for target in found:
        say(str(target))
    sys.exit(any(target.met is False for target in found))


if __name__ == "__main__":
    main()
