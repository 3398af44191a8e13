"""The limits of one tenant in plain words: every figure is computed anew from a list of all charges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from dllm_stack.limits.script import BUCKET_MS, WINDOW_MS
from dllm_stack.tenants import Limits
from tests.limits.kit import LEASE_S

LEASE_MS = round(LEASE_S * 1000)


@dataclass
class Charge:
    """`at`: when it was made; it is forgotten with all of its bucket."""

    at: int
    requests: int
    tokens: int

    def counts(self, now: int) -> bool:
        return self.at - self.at % BUCKET_MS + BUCKET_MS + WINDOW_MS > now


@dataclass
class Known:
    """What Redis has."""

    since: int
    server: str
    lost: int
    charges: list[Charge] = field(default_factory=list)
    debt: int = 0
    taken: dict[str, Charge] = field(default_factory=dict)
    reserved: dict[str, int] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)


class Seen(NamedTuple):
    """The state that a gateway has seen, and when."""

    since: int
    at: int


class PlainLimits:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.now = 0
        self.server, self.started = "first", 0
        self.known: Known | None = None
        self.ever: list[Charge] = []  # whatever Redis has lost of it

    def look(self, seen: Seen | None) -> Known:
        if self.known is None:
            self.known = Known(since=self.now, server=self.server, lost=self.started)
        known = self.known
        if known.server != self.server:
            known.server, known.lost = self.server, self.now
        if seen is not None and seen.since != known.since and seen.at >= self.started:
            known.lost = max(known.lost, known.since)
        self._forget(known)
        self._pay(known)
        return known

    def charged(self) -> tuple[int, int]:
        """Requests and tokens, the debt included."""
        if self.known is None:
            return 0, 0
        live = [charge for charge in self.known.charges if charge.counts(self.now)]
        return sum(c.requests for c in live), sum(c.tokens for c in live) + self.known.debt

    def reserve(self, id: str, seen: Seen | None, tokens: int, guess: int) -> str:
        known, limits = self.look(seen), self.limits
        if id in known.taken or id in known.done:
            return "ok"
        rates = limits.requests_per_minute is not None or limits.tokens_per_minute is not None
        if self.now < known.lost + (WINDOW_MS if rates else LEASE_MS):
            return "unknown"
        if limits.tokens_per_minute is not None:
            if tokens > limits.tokens_per_minute:
                return "too_large"
            guess = min(guess, limits.tokens_per_minute - tokens)
        tokens += guess
        requests_now, tokens_now = self.charged()
        if limits.requests_per_minute is not None and requests_now + 1 > limits.requests_per_minute:
            return "requests"
        if limits.tokens_per_minute is not None and tokens_now + tokens > limits.tokens_per_minute:
            return "tokens"
        if limits.concurrency is not None and len(self.open()) >= limits.concurrency:
            return "concurrency"
        known.taken[id] = self._charge(known, 1, tokens)
        known.reserved[id] = tokens
        known.leases[id] = self.now + LEASE_MS
        return "ok"

    def settle(self, id: str, seen: Seen | None, reserved: int, used: int) -> None:
        known = self.look(seen)
        if id in known.done:
            return
        known.done[id] = self.now
        charge = known.taken.pop(id, None)
        reserved = known.reserved.pop(id, reserved)
        if used > reserved:
            known.debt += used - reserved
        elif charge is not None:
            charge.tokens -= reserved - used
        known.leases.pop(id, None)
        self._pay(known)

    def renew(self, ids: list[str], seen: Seen | None) -> None:
        known = self.look(seen)
        for id in ids:
            if id not in known.done:
                known.leases[id] = self.now + LEASE_MS

    def open(self) -> list[str]:
        return [id for id, until in self.known.leases.items() if until > self.now] if self.known else []

    def _forget(self, known: Known) -> None:
        """What nobody asks for any more."""
        last = self.now - WINDOW_MS - BUCKET_MS
        for id in [id for id, until in known.leases.items() if until <= last]:
            for kept in (known.leases, known.taken, known.reserved):
                kept.pop(id, None)
        known.done = {id: at for id, at in known.done.items() if at > last}

    def _pay(self, known: Known) -> None:
        if self.now < known.lost + WINDOW_MS:
            return
        limit = self.limits.tokens_per_minute
        room = known.debt if limit is None else max(0, limit - (self.charged()[1] - known.debt))
        if paid := min(known.debt, room):
            known.debt -= paid
            self._charge(known, 0, paid)

    def _charge(self, known: Known, requests: int, tokens: int) -> Charge:
        charge = Charge(self.now, requests, tokens)
        known.charges.append(charge)
        self.ever.append(charge)
        return charge
