"""Sends the requests, and says how each has ended."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from loadtest.fuzz.mixes import Mix, Server, mix

LIMIT_S = 300.0  # several times the longest answer: a whole context, a token a forward
_AT_ONCE = 16
ANSWERED, REFUSED, ABORTED, LEFT = "answered", "refused", "aborted", "left by the client"


@dataclass(frozen=True)
class End:
    """
    Attributes:
        how: ANSWERED, REFUSED, ABORTED, LEFT; anything else is an offence.
        reason: the server's words, where it said any.
    """

    how: str
    reason: str = ""

    @property
    def offends(self) -> bool:
        return self.how not in (ANSWERED, REFUSED, ABORTED, LEFT)


@dataclass
class Tally:
    seconds: float = 0.0
    longest_s: float = 0.0
    ends: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    offences: list[tuple[Mix, End]] = field(default_factory=list)

    def add(self, request: Mix, end: End, seconds: float) -> None:
        self.ends[end.how if not end.offends else "offences"] += 1
        if end.how == REFUSED:
            self.reasons[_kind(end.reason)] += 1
        if end.offends:
            self.offences.append((request, end))
        self.longest_s = max(self.longest_s, seconds)

    def table(self, server: Server, seed: int) -> str:
        total = self.ends.total()
        lines = [f"{total} requests in {self.seconds:.0f} s, {total / self.seconds:.0f} a second; "]
        lines[0] += f"the longest answer took {self.longest_s:.1f} s"
        lines += [f"  {count:6}  {how}" for how, count in self.ends.most_common()]
        lines += [f"  {count:6}    refused: {reason}" for reason, count in self.reasons.most_common(25)]
        rest = self.reasons.total() - sum(count for _, count in self.reasons.most_common(25))
        lines += [f"  {rest:6}    refused otherwise"] * bool(rest)
        for request, end in self.offences[:30]:
            lines.append(f"  {end.how}: {end.reason[:300]}")
            lines.append(f"    {reproduction(server, seed, request.number)}")
        return "\n".join(lines)


async def run(server: Server, seed: int, numbers: Iterable[int]) -> Tally:
    """Several requests at once."""
    tally = Tally()
    began = time.monotonic()
    waiting = iter(numbers)
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(server.url, connector=connector) as http:

        async def client(numbers: Iterator[int]) -> None:
            for number in numbers:
                request = mix(seed, number, server)
                sent = time.monotonic()
                end = await _ask(http, request)
                tally.add(request, end, time.monotonic() - sent)

        await asyncio.gather(*(client(waiting) for _ in range(_AT_ONCE)))
    tally.seconds = time.monotonic() - began
    return tally


async def _ask(http: aiohttp.ClientSession, request: Mix) -> End:
    stays_s = LIMIT_S if request.stays_s is None else request.stays_s
    try:
        async with asyncio.timeout(stays_s):
            return await _answer(http, request)
    except TimeoutError:
        return End("hangs") if request.stays_s is None else End(LEFT)
    except aiohttp.ClientError as error:
        return End("connection lost", repr(error))


async def _answer(http: aiohttp.ClientSession, request: Mix) -> End:
    data = request.body if isinstance(request.body, bytes) else json.dumps(request.body).encode()
    headers = {"content-type": "application/json"}
    async with http.post(request.path, data=data, headers=headers) as response:
        text = await response.text()
        if response.status >= 500:
            return End(f"status {response.status}", text)
        if response.status >= 400:
            return End(REFUSED, text)
    if response.content_type == "text/event-stream":
        events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
        answers = [msgspec.json.decode(event) for event in events if event != "[DONE]"]
        # What is refused after a comment has kept the stream alive can only say so as an event, the last one.
        if not events or (events[-1] != "[DONE]" and "error" not in answers[-1]):
            return End("stream without an end", text[-300:])
    else:
        answers = msgspec.json.decode(text)
    return _judge(answers if isinstance(answers, list) else [answers])


def _judge(answers: list[Any]) -> End:
    for answer in answers:
        error = answer.get("error")
        if error is not None:
            told = error if isinstance(error, dict) else {}
            code = told.get("code")
            failed = (isinstance(code, int) and code >= 500) or told.get("type") == "server_error"
            return End(f"error event {code}" if failed else REFUSED, msgspec.json.encode(error).decode())
        finish = (answer.get("meta_info") or {}).get("finish_reason") or {}
        if finish.get("type") == "abort":
            return End(ABORTED, str(finish.get("message")))
    return End(ANSWERED)


def reproduction(server: Server, seed: int, number: int) -> str:
    kind = "gateway" if server.gateway else "engine"
    named = f"--model {server.model} --vocabulary {server.vocabulary}"
    return f"python -m loadtest.fuzz {kind} {server.url} {named} --seed {seed} --only {number}"


def _kind(reason: str) -> str:
    """Reasons that differ in values alone are one kind."""
    if "validation error" in reason:
        return "another shape or type than the endpoint's schema"
    found = re.search(r'"(?:message|error)": ?"((?:[^"\\]|\\.)*)"', reason)
    words = found[1] if found else reason
    words = re.sub(r"\[[^]]*\]|'[^']*'|`[^`]*`|-?\d+(\.\d+)?", "…", words)
    return words[:90]
