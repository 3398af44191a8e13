"""A gateway's part in the limits of its tenants."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from dllm_stack.limits.headers import Standing, standing_headers
from dllm_stack.limits.script import WINDOW_MS, Scripts
from dllm_stack.limits.verdicts import refusal
from dllm_stack.outcomes import RequestError, unavailable
from dllm_stack.redis import Connections, RedisError
from dllm_stack.settings import LimitSettings
from dllm_stack.tenants import Limits, Tenant

_UNLIMITED = Limits()
_RENEWED_AT_ONCE = 1000  # leases in one call, so that it stays short
# Settlements that may wait for a Redis that is away, before those are let go that may be about nothing. What
# such a one gives back is charged no more in a minute; kept, they would grow with the requests of an outage.
_MOST_UNSURE = 10_000
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Reservation:
    """A request that may begin. `settle` is due when it is over, whatever became of it.

    Attributes:
        headers: what the answer is to say about the tenant's limits.
    """

    def __init__(
        self, limiter: Limiter, tenant: Tenant, request_id: str, tokens: int, headers: Mapping[str, str]
    ) -> None:
        self.headers = headers
        self.tenant = tenant
        self.request_id = request_id
        self._tokens = tokens
        self._limiter = limiter
        self._is_over = False

    async def settle(self, tokens: int) -> None:
        """The request has used so many tokens, and is open no more. The first call counts. Redis hears of it
        when it is back, if it is away."""
        if self._is_over:
            return
        self._is_over = True
        await self._limiter._settle(_Settlement(self.tenant, self.request_id, self._tokens, tokens))


class _Settlement(msgspec.Struct, frozen=True):
    tenant: Tenant
    request_id: str
    reserved: int
    used: int


class _Unlimited(Reservation):
    def __init__(self) -> None:
        self.headers = _NOTHING

    async def settle(self, tokens: int) -> None:
        pass


class _Seen(msgspec.Struct, frozen=True):
    """The state of a tenant as this gateway last saw it."""

    since: str
    at: float  # loop time


class Limiter:
    """Counts in Redis, by Redis' clock, one script a step: so every gateway sees the same figures.

    Args:
        lease_s: silence after which a gateway counts as dead, and its requests are open no more.
        heartbeat_s: how often it says that they are.
    """

    def __init__(
        self, connections: Connections, settings: LimitSettings, *, heartbeat_s: float, lease_s: float
    ) -> None:
        self._scripts = Scripts(connections)
        self._blind_ms = _ms(settings.blind_s)
        self._lease_ms = _ms(lease_s)
        self._heartbeat_s = heartbeat_s
        self._open: dict[str, Reservation] = {}  # of tenants whose open requests are counted
        self._seen: dict[str, _Seen] = {}
        self._unsettled: asyncio.Queue[_Settlement] = asyncio.Queue()

    @property
    def steps(self) -> list[Callable[[], Awaitable[None]]]:
        """What is to be repeated for ever."""
        return [self._renew_leases, self._settle_next]

    async def reserve(self, tenant: Tenant, request_id: str, tokens: int, guess: int = 0) -> Reservation:
        """
        Args:
            request_id: of no other request.
            tokens: that the request asks for, its prompt among them.
            guess: that it may need besides; a limit below is no reason to refuse it.

        Raises:
            LimitError: RATE_LIMIT_EXCEEDED; the tenant's limits leave no room for it.
            RequestError: QUEUE_UNAVAILABLE
        """
        limits = tenant.limits
        if limits == _UNLIMITED:
            return _Unlimited()
        try:
            answer = await self._scripts.run(
                "reserve",
                tenant.name,
                request_id,
                *self._known(tenant.name),
                *map(_or_none, (limits.requests_per_minute, limits.tokens_per_minute, limits.concurrency)),
                tokens,
                guess,
                self._lease_ms,
                self._blind_ms,
            )
        except BaseException as error:
            # It may have been reserved, or may be later: what is settled already is not charged any more.
            if self._unsettled.qsize() < _MOST_UNSURE:
                self._unsettled.put_nowait(_Settlement(tenant, request_id, 0, 0))
            if isinstance(error, RedisError):
                raise RequestError(unavailable("The limits cannot be checked at present.")) from None
            raise
        verdict, wait_ms, since, reserved, *standing = answer
        self._saw(tenant.name, since)
        headers = standing_headers(limits, Standing(*standing))
        if verdict != b"ok":
            raise refusal(tenant, verdict.decode(), wait_ms, tokens + guess, headers)
        reservation = Reservation(self, tenant, request_id, reserved, headers)
        if limits.concurrency is not None:
            self._open[request_id] = reservation
        return reservation

    async def _settle(self, settlement: _Settlement) -> None:
        self._open.pop(settlement.request_id, None)
        try:
            await self._tell(settlement)
        except BaseException as error:
            self._unsettled.put_nowait(settlement)
            if not isinstance(error, RedisError):
                raise

    async def _settle_next(self) -> None:
        settlement = await self._unsettled.get()
        try:
            await self._tell(settlement)
        except RedisError:
            self._unsettled.put_nowait(settlement)
            raise

    async def _tell(self, settlement: _Settlement) -> None:
        name, limits = settlement.tenant.name, settlement.tenant.limits
        since = await self._scripts.run(
            "settle",
            name,
            settlement.request_id,
            *self._known(name),
            _or_none(limits.tokens_per_minute),
            settlement.reserved,
            settlement.used,
        )
        self._saw(name, since)

    async def _renew_leases(self) -> None:
        await asyncio.sleep(self._heartbeat_s)
        self._forget_seen()
        by_tenant: dict[str, list[Reservation]] = defaultdict(list)
        for reservation in self._open.values():
            by_tenant[reservation.tenant.name].append(reservation)
        for name, reservations in by_tenant.items():
            limit = _or_none(reservations[-1].tenant.limits.tokens_per_minute)
            for first in range(0, len(reservations), _RENEWED_AT_ONCE):
                ids = [each.request_id for each in reservations[first : first + _RENEWED_AT_ONCE]]
                since = await self._scripts.run(
                    "renew", name, *self._known(name), limit, self._lease_ms, *ids
                )
                self._saw(name, since)

    def _known(self, tenant: str) -> tuple[str, int]:
        """The name of the tenant's state, if it was seen so lately that it must be there still, and how many
        milliseconds ago that was."""
        seen = self._seen.get(tenant)
        if seen is None or (ago_ms := _ms(self._now() - seen.at)) >= WINDOW_MS:
            return "", 0
        return seen.since, ago_ms

    def _saw(self, tenant: str, since: Any) -> None:
        self._seen[tenant] = _Seen(since.decode(), self._now())

    def _forget_seen(self) -> None:
        for tenant in [tenant for tenant in self._seen if not self._known(tenant)[0]]:
            del self._seen[tenant]

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _or_none(limit: int | None) -> int:
    return -1 if limit is None else limit
