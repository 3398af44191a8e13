"""Tenants that want more than their limits allow, over two gateways: `python -m loadtest.limits`.

Eight clients a tenant send as fast as they may, and come back when they are told to. Of each tenant, in every
minute of the run: was its limit exceeded, and was it used? Then Redis loses its data, and it goes on.

A client does not see when it was admitted, only that it was between sending and the first byte of the answer.
So what was surely admitted within a minute must not exceed the limit, and what may have been must not fall
short of it.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from dllm_stack.keys import KeyFile
from dllm_stack.tenants import Limits
from loadtest.fleet import POOL, Fleet, Size

CLIENTS = 8
MINUTE_S, STEP_S = 60.0, 0.25  # every minute that begins at a multiple of the step is looked at
MOST_UNDER = 0.02
BLOCK = 32  # tokens, one of which may come after a client has left and before the gateway knows
LEAVES = 32  # one of so many requests of the tenant of tokens is left by its client after its first block
PACE = ["--slots", "64", "--block-ms", "40"]
TENANTS = {
    "by-requests": Limits(requests_per_minute=300),
    "by-tokens": Limits(tokens_per_minute=30_000),
    "by-concurrency": Limits(concurrency=4),
}
MAX_TOKENS = {"by-requests": 32, "by-tokens": 96, "by-concurrency": 320}


@dataclass
class Sent:
    """One request that was admitted, in monotonic seconds.

    Attributes:
        first: when its first byte came.
        ended: when its last byte came, or its client left.
        least, most: tokens it has used; known exactly unless its client left.
    """

    sent: float
    first: float
    ended: float
    least: int
    most: int


@dataclass
class Tally:
    limits: Limits
    sent: list[Sent] = field(default_factory=list)
    refusals: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


async def client(number: int, urls: list[str], secret: str, tenant: str, tally: Tally, until: float) -> None:
    dice = random.Random(f"{tenant} {number}")
    headers = {"Authorization": f"Bearer {secret}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        while time.monotonic() < until:
            prompt = [dice.randrange(100, 400) for _ in range(dice.randrange(4, 64))]
            body = {"model": POOL, "prompt": prompt, "max_tokens": MAX_TOKENS[tenant], "stream": True}
            leaves = tenant == "by-tokens" and dice.randrange(LEAVES) == 0
            try:
                wait_s = await _ask(http, dice.choice(urls), body, tally, leaves=leaves)
            except aiohttp.ClientError as error:
                tally.faults.append(repr(error))
                wait_s = 0.5
            if wait_s:
                await asyncio.sleep(wait_s)


async def _ask(
    http: aiohttp.ClientSession, url: str, body: dict[str, Any], tally: Tally, *, leaves: bool
) -> float:
    """Returns how long the client is told to stay away."""
    sent, first, blocks = time.monotonic(), 0.0, 0
    body = body | {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    async with http.post(f"{url}/v1/completions", json=body) as response:
        if response.status != 200:
            code = msgspec.json.decode(await response.read())["error"]["code"]
            tally.refusals[code] = tally.refusals.get(code, 0) + 1
            return float(response.headers.get("retry-after-ms", 0)) / 1000 or float(
                response.headers["retry-after"]
            )
        first, tokens = time.monotonic(), 0
        async for line in response.content:
            if line.startswith(b"data: {"):
                tokens = msgspec.json.decode(line[6:])["usage"]["total_tokens"]
                blocks += 1
                if leaves and blocks == 1:
                    break
    most = tokens + BLOCK if leaves else tokens
    tally.sent.append(Sent(sent, first, time.monotonic(), tokens, most))
    return 0.0


@dataclass(frozen=True)
class Minutes:
    """The fullest minute of a run, counted as low as it can have been, and the emptiest, as high."""

    fullest: int
    emptiest: int


def minutes(tally: Tally, began: float, ended: float, *, tokens: bool) -> Minutes:
    surely, maybe = [], []
    for start in _starts(began, ended):
        end = start + MINUTE_S
        surely.append(sum(s.least if tokens else 1 for s in tally.sent if start < s.sent and s.first <= end))
        maybe.append(sum(s.most if tokens else 1 for s in tally.sent if s.first > start and s.sent <= end))
    return Minutes(max(surely), min(maybe))


def most_open(tally: Tally) -> int:
    """At once, surely: each from its first byte to its last."""
    events = sorted([(s.first, 1) for s in tally.sent] + [(s.ended, -1) for s in tally.sent])
    open = most = 0
    for _, change in events:
        open += change
        most = max(most, open)
    return most


def _starts(began: float, ended: float) -> Iterator[float]:
    start = began
    while start + MINUTE_S <= ended:
        yield start
        start += STEP_S


def report(name: str, tally: Tally, began: float, lost: float, ended: float) -> bool:
    """Prints the figures of one tenant, and says whether they are as they should be."""
    limits, ok = tally.limits, True
    refused = ", ".join(f"{count} {code}" for code, count in sorted(tally.refusals.items())) or "none"
    print(f"\n{name}: {len(tally.sent)} requests admitted, refused: {refused}")
    for kind, limit in (("requests", limits.requests_per_minute), ("tokens", limits.tokens_per_minute)):
        if limit is None:
            continue
        steady = minutes(tally, began, lost, tokens=kind == "tokens")
        whole = minutes(tally, began, ended, tokens=kind == "tokens")
        print(f"  limit {limit} {kind} a minute")
        print(f"    fullest minute      {steady.fullest:7d}  {steady.fullest / limit:8.2%}")
        print(f"    emptiest minute     {steady.emptiest:7d}  {steady.emptiest / limit:8.2%}")
        print(f"    fullest, with the minutes around the loss of Redis' data  {whole.fullest / limit:8.2%}")
        ok &= whole.fullest <= limit and steady.emptiest >= (1 - MOST_UNDER) * limit
    if limits.concurrency is not None:
        most = most_open(tally)
        print(f"  limit {limits.concurrency} open at once: at most {most} were")
        ok &= most <= limits.concurrency
    back = min((s.first for s in tally.sent if s.sent > lost + 1), default=None)
    if back is None:
        print("  never admitted again after the loss")
        return False
    print(f"  admitted again {back - lost:.1f} s after the loss")
    if tally.faults:
        print(f"  broken connections: {tally.faults}")
    return ok and not tally.faults


async def run(steady_s: float, after_s: float) -> bool:
    with tempfile.TemporaryDirectory(prefix="limits-") as folder:
        keys = KeyFile(Path(folder) / "keys.yaml")
        secrets = {}
        for name, limits in TENANTS.items():
            secrets[name] = (await keys.create(name)).secret
            await keys.change_tenant(name, msgspec.to_builtins(limits))
        async with Fleet(Size(gateways=2), PACE, {"DLLM_ACCESS__KEYS": str(keys.path)}) as fleet:
            tallies = {name: Tally(limits) for name, limits in TENANTS.items()}
            print("A Redis that has just begun: nobody with a limit a minute is admitted for a minute.")
            begun = time.monotonic()
            tasks = [
                asyncio.create_task(client(number, fleet.gateways, secrets[name], name, tally, begun + 3600))
                for name, tally in tallies.items()
                for number in range(CLIENTS)
            ]
            while not all(tally.sent for tally in tallies.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            began = max(min(s.first for s in tally.sent) for tally in tallies.values())
            print(f"All admitted after {began - begun:.1f} s. Running for {steady_s:g} s.")
            await asyncio.sleep(steady_s)
            lost = time.monotonic()
            print("Redis is killed and comes back empty.")
            await fleet.lose_data()
            await asyncio.sleep(after_s)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            ended = time.monotonic()
        figures = [report(name, tally, began, lost, ended) for name, tally in tallies.items()]
        return all(figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=150.0, help="before Redis loses its data")
    parser.add_argument("--after", type=float, default=90.0, help="seconds afterwards")
    arguments = parser.parse_args()
    ok = asyncio.run(run(arguments.seconds, arguments.after))
    print("\nno limit was exceeded, none was used by less than 98 %" if ok else "\nNOT as it should be")
    sys.exit(not ok)


if __name__ == "__main__":
    main()
