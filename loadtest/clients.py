"""Clients that read slowly and clients that vanish, beside honest ones: `python -m loadtest.clients`.

The honest ones stream chats one after the other: first alone, then beside a crowd, twice. Of the crowd one
half reads a few bytes a second of long answers, and stays to the end; the other half goes away in the middle
of its body, before the first block, or in the middle of its stream, with a FIN or with a RST. The engine, a
simulator, has slots for all, so that what the honest ones notice is what the crowd costs the gateway, the
queue and the machine. Afterwards all slots must be free, and the gateway must have let go of its
memory. Of what it holds, that is the number of blocks in use, against the time before. Of what is resident,
which CPython keeps at the highest that it once was, that is the second crowd, which must add nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
import statistics
import struct
import sys
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import psutil
from prometheus_client.parser import text_string_to_metric_families

from dllm_stack.queue import PoolQueue
from dllm_stack.redis import Connections
from dllm_stack.settings import QueueSettings, RedisSettings
from loadtest.fleet import POOL, Fleet

HONEST, SLOW, VANISHING = 20, 500, 500
HONEST_TOKENS, SLOW_TOKENS, VANISHING_TOKENS = 128, 640, 256
PACE = ["--slots", "256", "--block-ms", "200"]
SLOW_BYTES, SLOW_EVERY_S = 64, 1.0
RECEIVE_BUFFER = 4096  # of a slow reader's socket: what it does not read stays with the gateway
MOST_SLOWER = 0.2
MOST_LARGER = 0.05
ROUNDS = 2
FREE_WITHIN_S = 30.0


@dataclass
class Times:
    """Of answers, in seconds."""

    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)


async def honest(url: str, times: Times, until: float) -> None:
    body = {"model": POOL, "max_tokens": HONEST_TOKENS, "stream": True}
    body |= {"messages": [{"role": "user", "content": "Say something."}]}
    async with aiohttp.ClientSession() as http:
        while (began := time.monotonic()) < until:
            first = 0.0
            async with http.post(f"{url}/v1/chat/completions", json=body) as response:
                response.raise_for_status()
                async for line in response.content:
                    if line.startswith(b"data: {"):
                        first = first or time.monotonic() - began
            assert line is not None
            times.first.append(first)
            times.whole.append(time.monotonic() - began)


def request(tokens: int) -> dict[str, Any]:
    """Its events, each all of the answer so far, are the longest that there are."""
    return {"model": POOL, "text": "Go on.", "sampling_params": {"max_new_tokens": tokens}, "stream": True}


class Rude:
    """A client with a socket of its own."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        assert where.hostname is not None
        assert where.port is not None
        self._address = where.hostname, where.port
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)

    async def send(self, tokens: int, *, share: float = 1.0) -> None:
        """A request for an answer of so many tokens, or the beginning of one."""
        content = json.dumps(request(tokens))
        head = f"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}\r\n\r\n"
        await self._loop.sock_connect(self._socket, self._address)
        await self._loop.sock_sendall(self._socket, (head + content[: int(share * len(content))]).encode())

    async def read(self, bytes: int) -> int:
        return len(await self._loop.sock_recv(self._socket, bytes))

    def leave(self, *, reset: bool = False) -> None:
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


async def slow_reader(url: str, after_s: float) -> None:
    """Stays until it is cancelled, or cut off."""
    await asyncio.sleep(after_s)
    client = Rude(url)
    try:
        await client.send(SLOW_TOKENS)
        while await client.read(SLOW_BYTES):  # noqa: ASYNC110
            await asyncio.sleep(SLOW_EVERY_S)
    finally:
        client.leave()


async def vanishing(url: str, after_s: float, dice: random.Random) -> None:
    when, reset, pause_s = dice.randrange(3), dice.random() < 0.5, dice.uniform(0, 0.1)
    await asyncio.sleep(after_s)
    client = Rude(url)
    try:
        await client.send(VANISHING_TOKENS, share=0.5 if when == 0 else 1.0)
        if when == 2:
            await client.read(100)
        await asyncio.sleep(pause_s)
    finally:
        client.leave(reset=reset)


@dataclass(frozen=True)
class State:
    """What there is at one time: of the gateway, and of jobs in the queue and in the engine."""

    memory: int  # bytes resident
    blocks: int  # of memory in use
    descriptors: int
    open_requests: int
    jobs: int
    slots_busy: int

    def __str__(self) -> str:
        return (
            f"{self.memory / 2**20:6.1f} MiB, {self.blocks:7d} blocks, {self.descriptors:5d} descriptors,"
            f" {self.open_requests:4d} open requests, {self.jobs:4d} jobs in the queue,"
            f" {self.slots_busy:4d} slots busy"
        )


class Show:
    def __init__(self, fleet: Fleet, connections: Connections, http: aiohttp.ClientSession) -> None:
        self._fleet = fleet
        self._queue = PoolQueue(connections, POOL, QueueSettings())
        self._http = http
        self._gateway = psutil.Process(fleet.members["gateway-0"].pid)

    async def state(self) -> State:
        async with self._http.get(f"{self._fleet.gateways[0]}/metrics") as response:
            families = list(text_string_to_metric_families(await response.text()))
        figures = {family.name: sum(sample.value for sample in family.samples) for family in families}
        async with self._http.get(f"{self._fleet.simulators[0]}/get_load") as response:
            (load,) = await response.json()
        depth = await self._queue.depth()
        return State(
            self._gateway.memory_info().rss,
            int(figures["dllm_allocated_blocks"]),
            self._gateway.num_fds(),
            int(figures["dllm_open_requests"]),
            depth.waiting + depth.running,
            load["num_reqs"],
        )

    async def well_behaved(self) -> None:
        """As many clients at a time as will read slowly, who read at once."""
        url = f"{self._fleet.gateways[0]}/generate"
        body = request(SLOW_TOKENS)

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

            async def ask() -> None:
                async with http.post(url, json=body) as response:
                    response.raise_for_status()
                    await response.read()

            await asyncio.gather(*(ask() for _ in range(SLOW)))

    async def honest(self, seconds: float) -> Times:
        times, until = Times(), time.monotonic() + seconds
        await asyncio.gather(*(honest(self._fleet.gateways[0], times, until) for _ in range(HONEST)))
        return times

    async def beside_a_crowd(self, seconds: float, dice: random.Random) -> tuple[Times, State]:
        """The honest ones' times, and what there was when all of the crowd had come."""
        url = self._fleet.gateways[0]
        come_s = 0.8 * seconds
        crowd = [asyncio.create_task(slow_reader(url, dice.uniform(0, come_s))) for _ in range(SLOW)]
        crowd += [
            asyncio.create_task(vanishing(url, dice.uniform(0, come_s), dice)) for _ in range(VANISHING)
        ]
        measured = asyncio.create_task(self.honest(seconds))
        await asyncio.sleep(come_s)
        full = await self.state()
        times = await measured
        for task in crowd:
            task.cancel()
        ends = await asyncio.gather(*crowd, return_exceptions=True)
        faults = [e for e in ends if isinstance(e, Exception) and not isinstance(e, ConnectionError)]
        assert not faults, faults
        return times, full

    async def settled(self) -> State:
        """Once everything is free, or after FREE_WITHIN_S."""
        by = time.monotonic() + FREE_WITHIN_S
        while True:
            state = await self.state()
            if not (state.open_requests or state.jobs or state.slots_busy) or time.monotonic() > by:
                return state
            await asyncio.sleep(0.2)


def cpu_seconds(fleet: Fleet) -> dict[str, float]:
    """Of each process, and of this one."""
    processes = {name: psutil.Process(member.pid) for name, member in fleet.members.items()}
    processes["clients"] = psutil.Process()
    found = {}
    for name, process in processes.items():
        times = process.cpu_times()
        found[name.removesuffix("-0")] = times.user + times.system
    return found


async def run(alone_s: float, crowd_s: float) -> bool:
    dice, ok = random.Random(0), True
    async with Fleet(pace=PACE) as fleet, aiohttp.ClientSession() as http:
        connections = Connections(RedisSettings(url=fleet.redis_url))
        show = Show(fleet, connections, http)
        print(f"  fresh               {await show.settled()}", flush=True)
        await show.well_behaved()
        start = await show.settled()
        print(f"  start               {start}", flush=True)
        alone = [await show.honest(alone_s)]
        ends: list[State] = []
        for number in range(1, ROUNDS + 1):
            before = cpu_seconds(fleet)
            beside, full = await show.beside_a_crowd(crowd_s, dice)
            used = {name: (s - before[name]) / crowd_s for name, s in cpu_seconds(fleet).items()}
            end = await show.settled()
            alone.append(await show.honest(alone_s))
            print(f"\nround {number}: {HONEST} honest clients, {SLOW} slow readers, {VANISHING} that vanish")
            print(f"  with all of them    {full}")
            print(f"  after they are gone {end}")
            print("  CPU, cores:", ", ".join(f"{name} {cores:.2f}" for name, cores in used.items()))
            around = alone[-2:]  # a shared machine is not the same all the time
            ok &= compare("first block ", [t for each in around for t in each.first], beside.first)
            ok &= compare("whole answer", [t for each in around for t in each.whole], beside.whole)
            ok &= not (end.open_requests or end.jobs or end.slots_busy)
            ok &= end.descriptors <= start.descriptors
            ends.append(end)
        in_use = ends[-1].blocks / start.blocks - 1
        grown = ends[-1].memory / ends[0].memory - 1
        print(
            f"\nmemory of the gateway: in use {in_use:+.1%} against the start, resident {grown:+.1%} against"
        )
        print(f"the end of round 1 and {ends[-1].memory / start.memory - 1:+.1%} against the start")
        await connections.aclose()
    return ok and max(in_use, grown) < MOST_LARGER


def compare(name: str, alone: list[float], beside: list[float]) -> bool:
    """Prints how much slower something was, and says whether that is little enough."""
    change = statistics.median(beside) / statistics.median(alone) - 1
    figures = (
        f"{statistics.median(alone) * 1000:.1f} ms alone, {statistics.median(beside) * 1000:.1f} ms beside"
    )
    print(
        f"  p50 of the {name} {figures}, {change:+.1%} ({len(alone)} and {len(beside)} answers)", flush=True
    )
    return change < MOST_SLOWER


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--alone", type=float, default=20.0, help="seconds")
    parser.add_argument("--crowd", type=float, default=100.0, help="seconds of each round")
    arguments = parser.parse_args()
    ok = asyncio.run(run(arguments.alone, arguments.crowd))
    print("\nas it should be" if ok else "\nNOT as it should be")
    sys.exit(not ok)


if __name__ == "__main__":
    main()
