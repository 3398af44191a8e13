"""Which alerts fire when something is wrong: `python -m loadtest.alerts`.

A gateway, a router, two workers with simulators and a Valkey under a real Prometheus and Alertmanager, with
the rules of configs/prometheus. Windows and waits of the rules are shorter by FACTOR, so that ten minutes are
half of one; thresholds are as they are. Each fault meets a stack of its own that has served calmly before.
Every alert that Alertmanager would have sent on is noted, from the calm on: those that are expected have to
be there, and no others.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import aiohttp

from dllm_stack.local import monitoring
from dllm_stack.local.service import free_port
from loadtest.fleet import Fleet, Member, Size, ready
from loadtest.prometheus import active_alerts
from loadtest.streams import CHAT, Answer, Pauses, Refusal, Request, StreamError, stream
from monitoring.rules import hurry, rule_files

FACTOR = 20
EVERY_S = 2  # scrapes and evaluations
CALM_S = 60.0
SIZE = Size(gateways=1, routers=1, workers=2)
PACE = ["--slots", "4", "--block-ms", "200"]
CALM_CLIENTS, CALM_TOKENS = 3, 64  # fewer than the slots of one worker
FLOOD_CLIENTS, FLOOD_TOKENS = 100, 1024
# The flood's queue: at 8 slots, and 6.4 s for a job, its last one waits for 48 s.
ENV = {"DLLM_QUEUE__MAX_WAITING_JOBS": "60"}
_RETRY_S = 1.0


@dataclass
class Scene:
    """A stack that serves, and who watches it.

    Attributes:
        fired: alert -> seconds since the fault; negative: before it.
    """

    fleet: Fleet
    http: aiohttp.ClientSession
    alertmanager: str
    fired: dict[str, float] = field(default_factory=dict)
    fault_at: float = float("inf")
    load: list[asyncio.Task[None]] = field(default_factory=list)

    def add_clients(self, count: int, tokens: int) -> None:
        self.load += [asyncio.create_task(self._ask_for_ever(number, tokens)) for number in range(count)]

    async def _ask_for_ever(self, number: int, tokens: int) -> None:
        while True:
            request = Request(CHAT, number, tokens)
            try:
                await stream(self.http, self.fleet.gateways[0], request, Answer(), Pauses())
            except (Refusal, StreamError, aiohttp.ClientError):
                await asyncio.sleep(_RETRY_S)

    async def watch(self) -> None:
        """For ever: notes the alerts that are active."""
        while True:
            for name in await active_alerts(self.http, self.alertmanager):
                if name not in self.fired:
                    self.fired[name] = time.monotonic() - self.fault_at
                    print(f"    {self.fired[name]:4.0f} s  {name}", flush=True)
            await asyncio.sleep(0.5)


@dataclass(frozen=True)
class Fault:
    name: str
    act: Callable[[Scene], Awaitable[None]]
    expected: set[str]
    watched_s: float


async def kill_worker(scene: Scene) -> None:
    await scene.fleet.members["worker-0"].kill()


async def stop_redis(scene: Scene) -> None:
    await scene.fleet.members["valkey"].kill()


async def flood(scene: Scene) -> None:
    scene.add_clients(FLOOD_CLIENTS, FLOOD_TOKENS)


FAULTS = (
    Fault("a worker is killed", kill_worker, {"DllmJobsReclaimed", "DllmTargetDown"}, 50),
    Fault("Redis is stopped", stop_redis, {"DllmAvailabilityBurnsFast", "DllmRedisUnreachable"}, 50),
    Fault(
        "the queue is flooded",
        flood,
        {"DllmFirstTokenBurnsFast", "DllmNoFreeSlot", "DllmQueueFull", "DllmQueueOld"},
        100,
    ),
)


async def play(fault: Fault) -> bool:
    """Whether the right alerts fired."""
    print(f"\n{fault.name}:", flush=True)
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(Fleet(SIZE, pace=PACE, env=ENV))
        connector = aiohttp.TCPConnector(limit=0)
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        scene = Scene(fleet, http, await watchers(fleet, stack))
        scene.add_clients(CALM_CLIENTS, CALM_TOKENS)
        watch = asyncio.create_task(scene.watch())
        await asyncio.wait({watch}, timeout=CALM_S)
        scene.fault_at = time.monotonic()
        before = set(scene.fired)
        await fault.act(scene)
        await asyncio.wait({watch}, timeout=fault.watched_s)
        for task in (watch, *scene.load):
            task.cancel()
        ended = await asyncio.gather(watch, *scene.load, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error
    fired = set(scene.fired)
    print(f"  expected: {', '.join(sorted(fault.expected))}")
    for what, names in (
        ("before the fault", before),
        ("missing", fault.expected - fired),
        ("not expected", fired - fault.expected),
    ):
        if names:
            print(f"  WRONG, {what}: {', '.join(sorted(names))}")
    return not before and fired == fault.expected


async def watchers(fleet: Fleet, stack: AsyncExitStack) -> str:
    """Starts them over a fleet, to be stopped with `stack`; returns Alertmanager's URL."""
    rules = fleet.folder / "rules"
    rules.mkdir()
    for file in rule_files():
        (rules / file.name).write_text(hurry(file.read_text(), FACTOR))
    tools = monitoring.tools(
        fleet.folder, targets(fleet), fleet.redis_url, port=free_port(), rules=rules, every_s=EVERY_S
    )
    for tool in tools:
        await _start(Member(tool.name, tool.argv, fleet.folder, probe=tool.probe, env=tool.env), stack)
    return next(tool.url for tool in tools if tool.name == "alertmanager")


async def _start(member: Member, stack: AsyncExitStack) -> None:
    await member.start()
    stack.push_async_callback(member.kill)
    await ready(member)


def targets(fleet: Fleet) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for kind in ("gateway", "router", "worker"):
        probes = [fleet.members[name].probe or "" for name in fleet.named(kind)]
        found[kind] = [probe.split("/")[2] for probe in probes]
    return found


async def run(faults: list[Fault]) -> bool:
    print(
        f"Windows and waits of the rules are {FACTOR} times shorter; before each fault {CALM_S:g} s of calm."
    )
    return all([await play(fault) for fault in faults])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [fault.name for fault in FAULTS]
    parser.add_argument("--only", choices=names, help="one of the faults")
    only = parser.parse_args().only
    right = asyncio.run(run([fault for fault in FAULTS if only in (None, fault.name)]))
    print("\nThe right alerts fired, and no others." if right else "\nThat was not right.")
    raise SystemExit(0 if right else 1)


if __name__ == "__main__":
    main()
