"""Whatever happens in whatever order: the scripts agree with the plain limits, and no limit is exceeded."""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Awaitable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from dllm_stack.limits import LimitError, Reservation
from dllm_stack.limits.script import WINDOW_MS, prefix
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings
from tests.limits.kit import NAME, Clock, TimedLimiter, TimedScripts, tenant
from tests.limits.plain import Known, PlainLimits, Seen

T = TypeVar("T")
RUNS = int(os.environ.get("DLLM_TEST_QUEUE_RUNS", "12"))  # of 60 steps each
GATEWAYS = 2
# One rule that chooses among these: of several rules hypothesis leaves some out of each run.
STEPS = [
    *6 * ["reserve"],
    *3 * ["settle"],
    *3 * ["time_passes"],
    *["again", "too_late", "beat", "gateway_dies", "snapshot", "restart"],
]


class LimitMachine(RuleBasedStateMachine):
    url: str
    twice = False

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.connections = Connections(RedisSettings(url=self.url, timeout_s=120))
        self.redis: Any = self.connections.commands
        self.clock = Clock(self.connections)
        self.gateways = [self.gateway() for _ in range(GATEWAYS)]
        self.seen: list[Seen | None] = [None] * GATEWAYS
        self.open: dict[str, tuple[int, Reservation]] = {}  # with the gateway that has it
        self.over: list[str] = []
        self.created = 0
        self.saved: tuple[dict[bytes, bytes], Known | None] = ({}, None)
        self.do(self.redis.flushall())
        self.do(self.clock.set())

    def gateway(self) -> TimedLimiter:
        limiter = TimedLimiter(self.connections, self.clock)
        limiter._scripts = TimedScripts(self.connections)
        limiter._scripts.twice = self.twice
        return limiter

    def do(self, call: Awaitable[T]) -> T:
        async def wait() -> T:
            return await call

        return self.loop.run_until_complete(wait())

    def teardown(self) -> None:
        left: list[Any] = self.do(self.redis.keys(prefix(NAME) + "*"))
        assert [key for key in left if not key.endswith(b"clock") and self.do(self.redis.pttl(key)) < 0] == []
        self.do(self.connections.aclose())
        self.loop.close()

    @initialize(
        requests=st.sampled_from((None, 3, 8)),
        tokens=st.sampled_from((None, 60, 1000)),
        concurrency=st.sampled_from((None, 2)),
    )
    def limits(self, requests: int | None, tokens: int | None, concurrency: int | None) -> None:
        if requests is tokens is concurrency is None:
            requests = 2
        self.tenant = tenant(requests, tokens, concurrency)
        self.plain = PlainLimits(self.tenant.limits)
        self.plain.now = self.clock.ms

    @rule(data=st.data(), step=st.sampled_from(STEPS))
    def step(self, data: st.DataObject, step: str) -> None:
        getattr(self, step)(data)

    def known(self, gateway: int) -> Seen | None:
        seen = self.seen[gateway]
        return seen if seen is not None and self.clock.ms - seen.at < WINDOW_MS else None

    def saw(self, gateway: int) -> None:
        assert self.plain.known is not None
        self.seen[gateway] = Seen(self.plain.known.since, self.clock.ms)

    # Gateways

    def reserve(self, data: st.DataObject) -> None:
        for _ in range(data.draw(st.integers(1, 4))):
            self.created += 1
            gateway = data.draw(st.integers(0, GATEWAYS - 1))
            tokens, guess = data.draw(st.sampled_from(((10, 0), (25, 20), (5, 500), (70, 0))))
            self.ask(f"{self.created}", gateway, tokens, guess)

    def ask(self, id: str, gateway: int, tokens: int, guess: int) -> None:
        expected = self.plain.reserve(id, self.known(gateway), tokens, guess)
        asking = self.gateways[gateway].reserve(self.tenant, id, tokens, guess)
        if expected != "ok":
            with pytest.raises(LimitError) as refusal:
                self.do(asking)
            assert ("retry-after-ms" in refusal.value.headers) == (expected != "too_large")
            self.saw(gateway)
            return
        reservation = self.do(asking)
        self.saw(gateway)
        self.same_headers(reservation)
        if id in self.over:
            assert reservation._tokens == 0
            self.do(reservation.settle(0))
            return
        self.open[id] = gateway, reservation
        assert self.plain.known is not None
        assert reservation._tokens == self.plain.known.reserved[id]

    def same_headers(self, reservation: Reservation) -> None:
        requests, tokens = self.plain.charged()
        for of, limit, charged in (
            ("requests", self.tenant.limits.requests_per_minute, requests),
            ("tokens", self.tenant.limits.tokens_per_minute, tokens),
        ):
            remaining = reservation.headers.get(f"x-ratelimit-remaining-{of}")
            assert remaining == (None if limit is None else str(max(0, limit - charged)))

    def again(self, data: st.DataObject) -> None:
        """A gateway that had no answer asks once more."""
        known = self.plain.known
        if known is not None and (recent := [id for id in self.open if self.is_recent(known.leases, id)]):
            id = data.draw(st.sampled_from(recent))
            if id in known.taken:
                self.ask(id, self.open[id][0], 10, 0)

    def too_late(self, data: st.DataObject) -> None:
        """What a gateway had given up arrives after all."""
        known = self.plain.known
        if known is not None and (recent := [id for id in self.over if self.is_recent(known.done, id)]):
            self.ask(data.draw(st.sampled_from(recent)), 0, 10, 0)

    def is_recent(self, times: dict[str, int], id: str) -> bool:
        return times.get(id, 0) > self.clock.ms - WINDOW_MS

    def settle(self, data: st.DataObject) -> None:
        if not self.open:
            return
        id = data.draw(st.sampled_from(sorted(self.open)))
        gateway, reservation = self.open.pop(id)
        used = data.draw(st.sampled_from((0, reservation._tokens, reservation._tokens // 2, 90, 400)))
        self.over.append(id)
        seen, reserved = self.known(gateway), reservation._tokens
        self.do(reservation.settle(used))
        self.do(reservation.settle(77))  # does nothing
        self.plain.settle(id, seen, reserved, used)
        self.saw(gateway)

    def beat(self, data: st.DataObject) -> None:
        for number, gateway in enumerate(self.gateways):
            mine = [id for id, (owner, _) in self.open.items() if owner == number]
            self.do(gateway.beat())
            if mine and self.tenant.limits.concurrency is not None:
                self.plain.renew(mine, self.known(number))
                self.saw(number)

    def gateway_dies(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, GATEWAYS - 1))
        self.gateways[number], self.seen[number] = self.gateway(), None
        self.open = {id: held for id, held in self.open.items() if held[0] != number}

    # Time and Redis

    def time_passes(self, data: st.DataObject) -> None:
        ms = data.draw(st.sampled_from((30, 100, 1700, 6000, 20_000, 31_000, 60_050, 200_000)))
        if ms < 2000:
            self.beat(data)
        self.do(self.clock.advance(ms))
        self.plain.now = self.clock.ms
        if ms >= 60_000:
            # Redis has forgotten such a tenant, by a clock of its own; the gateways too.
            self.do(self.forget())

    async def forget(self) -> None:
        if self.open or self.plain.charged() != (0, 0):
            return
        for key in await self.redis.keys(prefix(NAME) + "*"):
            if not key.endswith(b"clock"):
                await self.redis.delete(key)
        self.plain.known = None
        self.over.clear()

    def snapshot(self, data: st.DataObject) -> None:
        keys: list[bytes] = self.do(self.redis.keys(prefix(NAME) + "*"))
        dumps = {key: self.do(self.redis.dump(key)) for key in keys if not key.endswith(b"clock")}
        self.saved = dumps, copy.deepcopy(self.plain.known)

    def restart(self, data: st.DataObject) -> None:
        """Redis is gone for a moment, and comes back empty, or with what it had at the last snapshot."""
        self.do(self.clock.advance(data.draw(st.sampled_from((1, 3000)))))
        self.plain.now = self.clock.ms
        self.do(self.redis.flushall())
        self.do(self.clock.restart())
        self.plain.server, self.plain.started = f"started at {self.clock.ms}", self.clock.ms
        self.plain.known = None
        self.over.clear()
        if data.draw(st.booleans()):
            for key, dump in self.saved[0].items():
                self.do(self.redis.restore(key, 180_000, dump))
            self.plain.known = copy.deepcopy(self.saved[1])

    # What holds at any time

    @invariant()
    def nothing_is_exceeded(self) -> None:
        if not hasattr(self, "plain"):
            return
        limits, now = self.tenant.limits, self.plain.now
        last_minute = [charge for charge in self.plain.ever if charge.at > now - WINDOW_MS]
        if limits.requests_per_minute is not None:
            assert sum(charge.requests for charge in last_minute) <= limits.requests_per_minute
        if limits.tokens_per_minute is not None:
            assert sum(charge.tokens for charge in last_minute) <= limits.tokens_per_minute

    @invariant()
    def same_figures(self) -> None:
        if not hasattr(self, "plain"):
            return
        fields: dict[bytes, bytes] = self.do(self.redis.hgetall(prefix(NAME) + "state"))
        known = self.plain.known
        assert bool(fields) == (known is not None)
        if known is not None:
            assert int(fields[b"lost"]) == known.lost
            assert int(fields[b"debt"]) == known.debt
            assert int(fields[b"since"]) == known.since * 1000


class RepeatingLimitMachine(LimitMachine):
    twice = True


@pytest.mark.parametrize("backend", ["valkey", "redis7"], scope="session")
@pytest.mark.timeout(300 + 10 * RUNS)
@pytest.mark.parametrize("machine", [LimitMachine, RepeatingLimitMachine])
def test_any_history(machine: type[LimitMachine], redis_settings: RedisSettings) -> None:
    machine.url = redis_settings.url
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
