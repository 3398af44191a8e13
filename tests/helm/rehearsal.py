"""Clients that never stop asking, while pods are replaced."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from dllm_stack.local.service import free_port
from loadtest.fleet import POOL
from loadtest.streams import CHAT, GENERATE, Answer, Pauses, Refusal, Request, StreamError, stream

PATIENCE_S = 120.0


@dataclass
class Ledger:
    """What became of the streams."""

    whole: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    pauses: Pauses = field(default_factory=Pauses)
    times: dict[str, list[float]] = field(default_factory=dict)  # of failures, monotonic


class Clients:
    """Each asks the same again and again, and compares the answers with those that it got undisturbed.

    Args:
        http: with connections that are kept, as most clients keep them, and without.
    """

    def __init__(self, url: str, http: list[aiohttp.ClientSession], streams: int, tokens: range) -> None:
        self._url = url
        self._http = http
        self._expected: dict[int, Answer] = {}
        self._stop = asyncio.Event()
        self._requests = [
            Request((CHAT, GENERATE)[number % 2], number, tokens[number * 7 % len(tokens)])
            for number in range(streams)
        ]

    async def undisturbed(self) -> None:
        """Raises what a stream raises."""
        pauses = Pauses()

        async def ask(request: Request) -> None:
            answer = self._expected[request.number] = Answer()
            await stream(self._session(request), self._url, request, answer, pauses)

        await asyncio.gather(*map(ask, self._requests))

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[Ledger]:
        """Within, all of them ask; afterwards their last streams have ended."""
        ledger = Ledger()
        self._stop.clear()
        async with asyncio.TaskGroup() as group:
            for request in self._requests:
                group.create_task(self._ask_on(request, ledger))
            yield ledger
            self._stop.set()

    async def _ask_on(self, request: Request, ledger: Ledger) -> None:
        while not self._stop.is_set():
            answer = Answer()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await stream(self._session(request), self._url, request, answer, ledger.pauses)
            except Refusal as refusal:
                self._note(ledger, f"refused: {refusal}")
            except (StreamError, aiohttp.ClientError, TimeoutError) as error:
                begun = "broken" if answer.text else "lost"
                self._note(ledger, f"{begun}: {error!r}")
            else:
                if answer == self._expected[request.number]:
                    ledger.whole += 1
                else:
                    self._note(ledger, f"is not what it was undisturbed: {answer}")

    @staticmethod
    def _note(ledger: Ledger, failure: str) -> None:
        ledger.failures[failure] += 1
        ledger.times.setdefault(failure, []).append(time.monotonic())

    def _session(self, request: Request) -> aiohttp.ClientSession:
        return self._http[request.number // 2 % len(self._http)]


@asynccontextmanager
async def simulator(workers: int, slots: int, block_ms: int) -> AsyncIterator[int]:
    """An engine's simulator that the workers share; yields its port.

    Args:
        slots: of each worker.
    """
    port = free_port()
    pace = ["--slots", str(workers * slots), "--shared-by", str(workers), "--block-ms", str(block_ms)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "loadtest.simulator", "--port", str(port), *pace)
    )
    try:
        yield port
    finally:
        process.kill()
        await process.wait()


__all__ = ["POOL", "Clients", "Ledger", "simulator"]
