"""API keys at two gateways: what answers without one, what a refusal's time tells, how soon a revoked key is
refused, and what a Redis that loses everything opens.

    python -m loadtest.keys
"""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import aiohttp

from dllm_stack.keys import Created, Directory, KeyStore, Revocation
from dllm_stack.keys.records import new_key
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings
from dllm_stack.tenants import Tenant
from gateway.access import OPEN
from loadtest.fleet import POOL, Fleet, Size

REVOKED = 20  # keys
KNOWN = 1000  # keys in the store while lookups are timed
LOOKUPS = 3000  # of each kind
REQUESTS = 1500  # of each kind
LIMIT_S = 1.0  # in which a revoked key is to be refused everywhere
CONTROL = "another unknown"  # how far apart two of a kind are, is noise
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS")
_BODY = {"model": POOL, "prompt": "Hi", "max_tokens": 8}


class Client:
    """Asks all gateways at once."""

    def __init__(self, http: aiohttp.ClientSession, urls: list[str]) -> None:
        self.http = http
        self.urls = urls

    async def statuses(self, secret: str) -> list[int]:
        return await asyncio.gather(*(self._status(url, secret) for url in self.urls))

    async def until_all_say(self, secret: str, status: int) -> None:
        while await self.statuses(secret) != [status] * len(self.urls):  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    async def _status(self, url: str, secret: str) -> int:
        async with self.http.post(f"{url}/v1/completions", json=_BODY, headers=bearer(secret)) as response:
            await response.read()
            return response.status


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def wrong_keys(known: list[Created], revoked: Created) -> dict[str, str]:
    """A secret of each kind that is refused."""
    other, near = new_key("acme").secret, known[0].secret
    return {
        "unknown": other,
        CONTROL: new_key("acme").secret,
        "unknown, behind the id of a key": near[:19] + other[19:],
        "wrong in the last character": near[:-1] + ("A" if near[-1] != "A" else "B"),
        "revoked": revoked.secret,
    }


async def routes(client: Client, secret: str) -> bool:
    """What answers without a key."""
    url = client.urls[0]
    async with client.http.get(f"{url}/openapi.json", headers=bearer(secret)) as response:
        document: dict[str, Any] = await response.json()
    paths = {path.replace("{name}", POOL) for path in document["paths"]}
    paths |= {"/openapi.json", "/docs", "/admin/keys", "/nowhere", *OPEN}
    answers: dict[str, list[int]] = {}
    for path, method in itertools.product(sorted(paths), METHODS):
        async with client.http.request(method, url + path) as response:
            answers.setdefault(path, []).append(response.status)
    opened = [path for path, statuses in answers.items() if set(statuses) != {401}]
    page = [path for path in opened if path.startswith("/playground/")]
    shown = ", ".join(sorted(set(opened) - set(page)))
    print(f"{len(paths)} paths, each by {len(METHODS)} methods. Without a key answer")
    print(f"  {shown}, and the page's {len(page)} files")
    return set(opened) <= OPEN


def lookups() -> bool:
    """What the time of a lookup tells."""
    known = [new_key("acme") for _ in range(KNOWN)]
    revocation = Revocation(at=int(time.time()), ends=0)
    tenants = {"acme": Tenant(name="acme")}
    keys = {each.key.id: each.key for each in known}
    directory = Directory(keys, {known[-1].key.id: revocation}, tenants)
    now = time.time()

    def fifty(secret: str) -> Callable[[], object]:
        return lambda: [directory.find(secret, now) for _ in range(50)]

    cases = {name: fifty(secret) for name, secret in wrong_keys(known, known[-1]).items()}
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(LOOKUPS // 50):
        for name in random.sample(list(cases), len(cases)):
            began = time.perf_counter()
            cases[name]()
            taken[name].append((time.perf_counter() - began) / 50)
    return _compare(f"a lookup among {KNOWN} keys, {LOOKUPS} of each", taken, 1e9, "ns")


async def refusals(client: Client, known: list[Created], revoked: Created) -> bool:
    """What the time of a 401 tells."""
    wrong = wrong_keys(known, revoked)
    taken: dict[str, list[float]] = {name: [] for name in wrong}
    for _ in range(REQUESTS):
        for name in random.sample(list(wrong), len(wrong)):
            began = time.perf_counter()
            async with client.http.get(
                f"{client.urls[0]}/v1/models", headers=bearer(wrong[name])
            ) as response:
                assert response.status == 401
                await response.read()
            taken[name].append(time.perf_counter() - began)
    return _compare(f"a refusal over HTTP, {REQUESTS} of each", taken, 1e6, "us")


def _compare(what: str, taken: dict[str, list[float]], scale: float, unit: str) -> bool:
    # The fast ones: what else runs on this machine makes the others slow.
    fast = {name: statistics.quantiles(times, n=5)[0] * scale for name, times in taken.items()}
    each = ", ".join(f"{name} {time:.0f}" for name, time in fast.items())
    spread = max(fast.values()) / min(fast.values()) - 1
    noise = abs(fast["unknown"] / fast[CONTROL] - 1)
    print(f"{what}, the fifth of them below, {unit}: {each}; {spread:.1%} apart, two of a kind {noise:.1%}")
    return spread < max(0.1, 3 * noise)


async def revocations(client: Client, store: KeyStore) -> bool:
    """How soon a revoked key is refused by all gateways."""
    keys = [await store.create("acme") for _ in range(REVOKED)]
    for key in keys:
        await client.until_all_say(key.secret, 200)
    took = []
    for key in keys:
        began = time.monotonic()
        await store.revoke([key.key.id])
        await client.until_all_say(key.secret, 401)
        took.append(time.monotonic() - began)
    median, most = statistics.median(took), max(took)
    print(f"{REVOKED} keys revoked: refused by both gateways after {median:.2f} s, {most:.2f} s at most")
    return most < LIMIT_S


async def losses(fleet: Fleet, client: Client, store: KeyStore) -> bool:
    """What opens when Redis loses everything, and when a gateway was held up."""
    known, revoked, late = [await store.create("acme") for _ in range(3)]
    for key in (known, revoked, late):
        await client.until_all_say(key.secret, 200)
    change = await store.revoke([revoked.key.id])
    while set(await store.behind(change)) - {"?"}:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await fleet.lose_data()
    began = time.monotonic()
    opened = 0
    while await client.statuses(known.secret) != [200] * len(client.urls):
        opened += (await client.statuses(revoked.secret)).count(200)
        assert time.monotonic() - began < 60, "the key that was known does not go on"
    for _ in range(20):
        opened += (await client.statuses(revoked.secret)).count(200)
        await asyncio.sleep(0.05)
    print(f"Redis lost everything: those known go on, and a key revoked before was let in {opened} times")
    gateway = fleet.members["gateway-0"]
    assert gateway._process is not None
    gateway._process.send_signal(signal.SIGSTOP)
    await store.revoke([late.key.id])
    await asyncio.sleep(1.5)
    gateway._process.send_signal(signal.SIGCONT)
    statuses = await client.statuses(late.secret)
    print(f"a gateway stood still while a key was revoked; asked as soon as it went on, they say {statuses}")
    return not opened and statuses == [401] * len(client.urls)


async def run() -> bool:
    async with Fleet(Size(gateways=2), env={"DLLM_ACCESS__KEYS": "redis"}) as fleet:
        connections = Connections(RedisSettings(url=fleet.redis_url))
        store = KeyStore(connections)
        try:
            async with aiohttp.ClientSession() as http:
                client = Client(http, fleet.gateways)
                known = [await store.create("acme") for _ in range(3)]
                await client.until_all_say(known[0].secret, 200)
                await store.revoke([known[2].key.id])
                await client.until_all_say(known[2].secret, 401)
                results = [
                    await routes(client, known[0].secret),
                    lookups(),
                    await refusals(client, known, known[2]),
                    await revocations(client, store),
                    await losses(fleet, client, store),
                ]
        finally:
            await connections.aclose()
    print("as it should be" if all(results) else "NOT as it should be")
    return all(results)


if __name__ == "__main__":
    sys.exit(not asyncio.run(run()))
