"""1,000 streams while everything dies: `python -m loadtest.chaos`.

2 gateways, 2 routers, 4 workers and their simulators, and Valkey with an append-only file, a process each.
The streams run once undisturbed and once more while a process of one kind after the other is killed with
kill -9 and started again. Valkey is killed too: once its data is there again afterwards, once it is lost.

A client whose gateway dies loses its connection, and asks the other gateway: that stream begins anew. One
that is refused with 429 or 503 before anything was sent asks again. Both are counted; anything else that a
client did not get, or got twice, or got differently from the undisturbed run, fails the show.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field

import aiohttp

from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings
from loadtest.fleet import Fleet, Size
from loadtest.streams import CHAT, GENERATE, Answer, Pauses, Refusal, Request, StreamError, stream

SIZE = Size(gateways=2, routers=2, workers=4)
PACE = ["--slots", "16", "--block-ms", "300"]
FEWEST_TOKENS, MOST_TOKENS = 64, 384
UNDISTURBED_AT_ONCE = 48
KINDS = ["worker", "gateway", "simulator", "router"]
DOWN_S = 0.5  # from a kill to the start of the next process
PATIENCE_S = 120.0  # of a client, with one stream
RETRY_S = 0.5
DRAINED_S = 30.0
# Somebody who is killed every few seconds may take the same job along more than the usual three times.
ENV = {"DLLM_QUEUE__MAX_ATTEMPTS": "10"}


@dataclass
class Outage:
    """Of one gateway, in monotonic seconds."""

    began: float
    ended: float = float("inf")

    def overlaps(self, since: float, until: float) -> bool:
        return self.began < until and self.ended > since


@dataclass
class Ledger:
    """What became of the streams of one run."""

    answers: dict[int, Answer] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)  # of the streams
    again: Counter[str] = field(default_factory=Counter)  # requests that were sent once more, and why
    failures: list[str] = field(default_factory=list)
    pauses: Pauses = field(default_factory=Pauses)


class Clients:
    """Args: gateways: URL -> its outages."""

    def __init__(self, http: aiohttp.ClientSession, gateways: dict[str, list[Outage]]) -> None:
        self._http = http
        self._gateways = gateways

    async def ask(self, request: Request, ledger: Ledger, expected: dict[int, Answer]) -> None:
        """Asks one gateway after the other until the request is answered, and notes what happened."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                ledger.answers[request.number] = await self._answer(request, ledger, expected)
        except TimeoutError:
            ledger.failures.append(f"{request}: not answered within {PATIENCE_S:g} s")
        except StreamError as error:
            ledger.failures.append(f"{request}: {error}")

    async def _answer(self, request: Request, ledger: Ledger, expected: dict[int, Answer]) -> Answer:
        urls = itertools.cycle(self._gateways)
        end = "in one stream"
        for url in itertools.islice(urls, request.number % len(self._gateways), None):
            answer, began = Answer(), time.monotonic()
            try:
                await stream(self._http, url, request, answer, ledger.pauses)
            except Refusal as refusal:
                if refusal.status not in (429, 503):
                    raise StreamError(f"refused: {refusal}") from refusal
                ledger.again[f"refused: {refusal}"] += 1
            except aiohttp.ClientError as error:
                if not any(outage.overlaps(began, time.monotonic()) for outage in self._gateways[url]):
                    raise StreamError(f"broken, and its gateway lives: {error!r}") from error
                if answer.text:
                    end = "begun anew at another gateway"
                    ledger.again["their gateway was killed in mid-stream"] += 1
                else:
                    ledger.again["their gateway was killed, and had sent nothing"] += 1
            if expected and not _same(answer, expected[request.number]):
                raise StreamError(f"is not what it was undisturbed: {answer}")
            if answer.whole:
                ledger.ends[end] += 1
                return answer
            await asyncio.sleep(RETRY_S)
        raise AssertionError("the gateways go round for ever")


def _same(answer: Answer, expected: Answer) -> bool:
    return answer == expected if answer.whole else answer.begins(expected)


class Killer:
    """Kills a process of one kind after the other, and twice Valkey, and starts each again."""

    def __init__(self, fleet: Fleet, outages: dict[str, list[Outage]], dice: random.Random) -> None:
        self.kills: Counter[str] = Counter()
        self._fleet = fleet
        self._outages = outages
        self._dice = dice

    async def rage(self, every_s: float, kills: int) -> None:
        kinds = itertools.cycle(KINDS)
        for number in range(kills):
            began = time.monotonic()
            if number == kills // 3:
                await self._restart("valkey")
            elif number == 2 * kills // 3:
                self._say("valkey, with all its data")
                await self._fleet.lose_data()
            else:
                kind = next(kinds)
                await self._fleet.serves(*self._fleet.named(kind))  # so that not all of a kind are dead
                await self._restart(self._dice.choice(self._fleet.named(kind)))
            await asyncio.sleep(began + every_s - time.monotonic())

    async def _restart(self, name: str) -> None:
        self._say(name)
        member = self._fleet.members[name]
        outage = Outage(time.monotonic())
        if name.startswith("gateway"):
            url = self._fleet.gateways[self._fleet.named("gateway").index(name)]
            self._outages[url].append(outage)
        await member.kill()
        await asyncio.sleep(DOWN_S)
        await member.start()
        if name.startswith("gateway"):
            await self._fleet.serves(name)
        outage.ended = time.monotonic()

    def _say(self, what: str) -> None:
        self.kills[what.partition("-")[0]] += 1
        print(f"  {time.strftime('%X')}  kill -9 of {what}", flush=True)


def requests(count: int) -> list[Request]:
    dice = random.Random(count)
    return [
        Request((CHAT, GENERATE)[number % 2], number, dice.randint(FEWEST_TOKENS, MOST_TOKENS))
        for number in range(count)
    ]


async def undisturbed(clients: Clients, asked: list[Request]) -> Ledger:
    ledger, turn = Ledger(), asyncio.Semaphore(UNDISTURBED_AT_ONCE)

    async def ask(request: Request) -> None:
        async with turn:
            await clients.ask(request, ledger, {})

    await asyncio.gather(*map(ask, asked))
    return ledger


async def disturbed(clients: Clients, asked: list[Request], expected: Ledger, seconds: float) -> Ledger:
    ledger, tasks = Ledger(), []
    dice, began = random.Random(0), time.monotonic()
    for request, due in zip(asked, sorted(dice.uniform(0, seconds) for _ in asked), strict=True):
        await asyncio.sleep(began + due - time.monotonic())
        tasks.append(asyncio.create_task(clients.ask(request, ledger, expected.answers)))
    await asyncio.gather(*tasks)
    return ledger


async def left_over(fleet: Fleet) -> list[str]:
    """Keys of jobs that are still there though every client has its answer."""
    connections = Connections(RedisSettings(url=fleet.redis_url))
    try:
        deadline = time.monotonic() + DRAINED_S
        while True:
            async with connections.limit():
                keys = [key.decode() for key in await connections.commands.keys("dllm:*:job:*")]
            if not keys or time.monotonic() > deadline:
                return keys
            await asyncio.sleep(0.2)
    finally:
        await connections.aclose()


def report(name: str, ledger: Ledger, seconds: float) -> None:
    print(f"\n{name}: {len(ledger.answers)} streams answered in {seconds:.0f} s")
    for what, count in ledger.ends.most_common():
        print(f"  {count:5}  {what}")
    for what, count in ledger.again.most_common():
        print(f"  {count:5}  requests sent again: {what}")
    longest_s = ledger.pauses.longest_s
    print(
        f"  {ledger.pauses.streams:5}  streams paused for more than a second, the longest {longest_s:.1f} s"
    )
    print(f"  {len(ledger.failures):5}  lost, cut, or with other bytes", flush=True)
    for failure in ledger.failures[:20]:
        print(f"         {failure[:300]}")


async def run(count: int, seconds: float, every_s: float) -> bool:
    """Whether every stream survived."""
    asked = requests(count)
    async with Fleet(SIZE, pace=PACE, env=ENV, durable=True) as fleet:
        outages: dict[str, list[Outage]] = {url: [] for url in fleet.gateways}
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as http:
            clients = Clients(http, outages)
            expected, took_s = await _timed(undisturbed(clients, asked))
            report("Undisturbed", expected, took_s)
            if expected.failures:
                return False
            print(f"\nDisturbed, a kill every {every_s:g} s:", flush=True)
            killer = Killer(fleet, outages, random.Random(1))
            (ledger, took_s), _ = await asyncio.gather(
                _timed(disturbed(clients, asked, expected, seconds)),
                killer.rage(every_s, round(seconds / every_s)),
            )
        report("Disturbed", ledger, took_s)
        print("  killed: " + ", ".join(f"{kind} {count}" for kind, count in killer.kills.items()))
        left = await left_over(fleet)
        print(f"  {len(left)} jobs left in the queue")
        fleet.keep = bool(ledger.failures or left)
        if fleet.keep:
            print(f"  logs: {fleet.folder}")
        return not fleet.keep


async def _timed(work: Awaitable[Ledger]) -> tuple[Ledger, float]:
    began = time.monotonic()
    return await work, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=90, help="in which the streams are begun")
    parser.add_argument("--kill-every", type=float, default=2.0, help="seconds")
    arguments = parser.parse_args()
    survived = asyncio.run(run(arguments.streams, arguments.seconds, arguments.kill_every))
    raise SystemExit(0 if survived else 1)


if __name__ == "__main__":
    main()
