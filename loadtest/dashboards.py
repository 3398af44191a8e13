"""Every expression of a dashboard or a rule, by a real Prometheus: `python -m loadtest.dashboards`.

`dllm-stack up --with-monitoring`, keys on, with the demo engine, or a simulator in its place: under more
streams than slots, wrong requests, wrong keys, clients that leave and a tenant at its limit. Each expression
has to return numbers at some time. Those that need what is not here are listed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

from loadtest.fleet import MODEL, POOL, ready, simulator
from loadtest.local_stack import LocalStack
from loadtest.prometheus import evaluate
from monitoring.dashboards.model import NEEDS_DECODER, NEEDS_GPU
from monitoring.expressions import Expression, of_panels, of_rules

CLIENTS, TOKENS = 16, 96
RATE_INTERVAL = "1m"  # as Grafana takes it for a scrape every 15 s
LIMIT_S = 180.0
_EVERY_S = 5.0
_PAUSE_S = 0.5
_ENV = {
    "DLLM_ACCESS__KEYS": "redis",
    "DLLM_ADMIN__PORT": "0",
    "DLLM_QUEUE__MAX_WAITING_JOBS": "8",
    "DLLM_UP__MONITORING": "true",
    "DLLM_UP__PROMETHEUS_PORT": "0",
}


class Clients:
    """All kinds of requests, for ever."""

    def __init__(self, http: aiohttp.ClientSession, url: str, model: str, key: str, limited: str) -> None:
        self._http = http
        self._url = f"{url}/v1/chat/completions"
        self._model = model
        self._key = key
        self._limited = limited

    def begin(self) -> list[asyncio.Task[None]]:
        kinds: list[Callable[[], Awaitable[None]]] = [self._stream] * CLIENTS
        kinds += [self._exceed, self._guess, self._err, self._leave]
        return [asyncio.create_task(self._for_ever(kind)) for kind in kinds]

    async def _for_ever(self, kind: Callable[[], Awaitable[None]]) -> None:
        while True:
            await kind()
            await asyncio.sleep(_PAUSE_S)

    async def _stream(self) -> None:
        await self._ask(self._key)

    async def _exceed(self) -> None:
        await self._ask(self._limited)

    async def _guess(self) -> None:
        await self._ask("dk-wrong")

    async def _err(self) -> None:
        await self._ask(self._key, temperature="warm")

    async def _leave(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_PAUSE_S):
                await self._ask(self._key)

    async def _ask(self, key: str, **more: Any) -> None:
        messages = [{"role": "user", "content": "Write the number from 1 to 128"}]
        body = {"model": self._model, "messages": messages, "max_tokens": TOKENS, "stream": True} | more
        bearer = {"Authorization": f"Bearer {key}"}
        async with self._http.post(self._url, json=body, headers=bearer) as response:
            await response.read()


def limited_key(stack: LocalStack) -> str:
    """Of a tenant that may ask once a minute."""
    env = os.environ | {"DLLM_REDIS__URL": stack.redis_url, "DLLM_ACCESS__KEYS": "redis"}
    command = [sys.executable, "-m", "dllm_stack.cli"]
    subprocess.run(
        [*command, "tenants", "set", "limited", "--requests-per-minute", "1"],
        env=env,
        check=True,
        capture_output=True,
    )
    created = subprocess.run(
        [*command, "keys", "create", "limited"], env=env, check=True, capture_output=True, text=True
    )
    return created.stdout.strip()


class Ledger:
    """Which expressions have returned something."""

    def __init__(self) -> None:
        self.waiting = [*of_panels(RATE_INTERVAL), *of_rules()]
        self.answered = 0

    async def ask(self, http: aiohttp.ClientSession, prometheus: str) -> None:
        """Raises QueryError."""
        answers = [await evaluate(http, prometheus, each.text) for each in self.waiting]
        waiting = [each for each, values in zip(self.waiting, answers, strict=True) if not values]
        self.answered += len(self.waiting) - len(waiting)
        self.waiting = waiting

    def done(self, absent: set[str]) -> bool:
        return all(each.needs in absent for each in self.waiting)


@asynccontextmanager
async def engine(simulated: bool) -> AsyncIterator[dict[str, str]]:
    """The settings of its worker."""
    if not simulated:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="dashboards-") as name:
        folder = Path(name)
        model = folder / "model.yaml"
        model.write_text(MODEL)
        member, url = simulator("simulator", ["--slots", "8"], folder)
        await member.start()
        try:
            await ready(member)
            yield {"DLLM_WORKER__ENGINE_URL": url, "DLLM_WORKER__MODEL": str(model)}
        finally:
            await member.kill()


async def run(simulated: bool) -> bool:
    """Whether each expression returned numbers, apart from those that cannot here."""
    absent = {NEEDS_GPU, *({NEEDS_DECODER} if simulated else ())}
    ledger = Ledger()
    async with engine(simulated) as env:
        with LocalStack(**_ENV, **env) as stack:
            await watch(stack, ledger, absent, model=POOL if simulated else "dllm-demo")
    print(f"\n{ledger.answered} expressions returned numbers.")
    report("need what is not here", [each for each in ledger.waiting if each.needs in absent])
    failed = [each for each in ledger.waiting if each.needs not in absent]
    report("RETURNED NOTHING", failed)
    return not failed


async def watch(stack: LocalStack, ledger: Ledger, absent: set[str], model: str) -> None:
    """Evaluates again and again, until everything has answered, or for LIMIT_S."""
    prometheus = _found(r"prometheus +ready +(\S+)", stack)
    key = _found(r"(dk-[\w-]{60})", stack)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        clients = Clients(http, stack.gateway_url, model, key, limited_key(stack)).begin()
        began = time.monotonic()
        while not ledger.done(absent) and time.monotonic() - began < LIMIT_S:
            await asyncio.sleep(_EVERY_S)
            await ledger.ask(http, prometheus)
            seconds = time.monotonic() - began
            print(
                f"  {seconds:4.0f} s  {ledger.answered} answered, {len(ledger.waiting)} have not", flush=True
            )
        for task in clients:
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


def _found(pattern: str, stack: LocalStack) -> str:
    match = re.search(pattern, stack.output())
    assert match is not None
    return match[1]


def report(what: str, expressions: list[Expression]) -> None:
    if expressions:
        print(f"{len(expressions)} {what}:")
    for each in expressions:
        print(
            f"  {each.where}: {' '.join(each.text.split())}"
            + (f"  (needs {each.needs})" if each.needs else "")
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulator", action="store_true", help="in place of the demo engine")
    whole = asyncio.run(run(parser.parse_args().simulator))
    raise SystemExit(0 if whole else 1)


if __name__ == "__main__":
    main()
