"""Random histories of keys, gateways and losses: what was said to be revoked opens nothing ever after."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dllm_stack.keys import Created, KeyRing, KeyStore, Refusal, StoreError
from dllm_stack.keys.sources import RedisSource
from dllm_stack.keys.store import LEASE_S
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings
from tests.keys.kit import PREFIX, pass_time

GATEWAYS = 2
_GATEWAY, _KEY = st.integers(0, GATEWAYS - 1), st.integers(0, 3)
_STEPS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("revoke and confirm"), _KEY),
    st.tuples(st.just("rotate"), _KEY),
    st.tuples(st.just("revoke"), _KEY),
    st.tuples(st.just("delete"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("look"), _GATEWAY),
    st.tuples(st.just("away"), _GATEWAY),
    st.tuples(st.just("time"), st.none()),
    st.tuples(st.just("confirm"), st.none()),
    st.tuples(st.just("save"), st.none()),
    st.tuples(st.just("go back"), st.none()),
    st.tuples(st.just("lose all"), st.none()),
)


class History:
    """What an operator was told, beside what gateways let in."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self.redis: Any = connections.commands
        self.store = KeyStore(connections)
        self.rings = [KeyRing(RedisSource(self.store, f"g{number}")) for number in range(GATEWAYS)]
        self.keys: list[Created] = []
        self.ordered: dict[str, set[str]] = {}  # change -> ids of keys that end with it
        self.closed: set[str] = set()  # ids of which `revoke` has said that every gateway refuses them
        self.saved: dict[bytes, bytes] = {}

    async def begin(self) -> None:
        """Two keys that every gateway knows."""
        await pass_time(self.connections)
        for tenant in ("a", "b"):
            await self.step("create", tenant)
        for number in range(GATEWAYS):
            await self.step("look", number)

    async def step(self, name: str, what: Any) -> None:
        match name:
            case "create":
                self.keys.append(await self.store.create(what))
            case "rotate" if what < len(self.keys):
                with suppress(StoreError):
                    self.keys.append(await self.store.rotate(self.keys[what].key.id, 3600))
            case "revoke" if what < len(self.keys):
                key_id = self.keys[what].key.id
                self._order(await self.store.revoke([key_id]), {key_id})
            case "revoke and confirm":
                await self.step("revoke", what)
                for number in range(GATEWAYS):
                    if self.rings[number].age_s <= LEASE_S:
                        await self.step("look", number)
                await self._confirm()
            case "delete":
                deleted = await self.store.delete_tenant(what)
                self._order(deleted.change, set(deleted.key_ids))
            case "look":
                await self.rings[what].refresh()
            case "away":
                await self._away(what)
            case "time":  # so much that who has not looked meanwhile is away
                await self._tell_again()
                await pass_time(self.connections)
            case "confirm":
                await self._confirm()
            case "save":
                self.saved = {key: await self.redis.dump(key) for key in await self.redis.keys(PREFIX + "*")}
            case "go back":
                await self.redis.flushall()
                for key, value in self.saved.items():
                    await self.redis.restore(key, 0, value)
                there = [ring.directory.revoked for ring in self.rings if ring.age_s <= LEASE_S]
                self.closed &= set().union(*there)  # of the others nobody who is there has heard
                await self._tell_again()
            case "lose all":
                await self.redis.flushall()

    def _order(self, change: str, key_ids: set[str]) -> None:
        self.ordered.setdefault(change, set()).update(key_ids)

    async def _tell_again(self) -> None:
        """The gateways that are there look, as they do at once, tell Redis what it does not know, and hear of
        it from each other."""
        for number in (*range(GATEWAYS), *range(GATEWAYS)):
            if self.rings[number].age_s <= LEASE_S:
                await self.step("look", number)

    async def _away(self, gateway: int) -> None:
        """It does not look for longer than it counts on what it knows, as Redis sees it too."""
        ring = self.rings[gateway]
        if ring._read_at is not None:
            ring._read_at -= LEASE_S + 1
        if await self.redis.zscore(PREFIX + "rings", f"g{gateway}") is not None:
            await self.redis.zincrby(PREFIX + "rings", -1000 * (LEASE_S + 1), f"g{gateway}")

    async def _confirm(self) -> None:
        """As the command line does, which begins to wait at once."""
        for change, key_ids in self.ordered.items():
            with suppress(StoreError):
                if not await self.store.behind(change):
                    self.closed |= key_ids
        self.ordered = {}

    async def check(self) -> None:
        """Every gateway that may count on what it knows refuses what is closed."""
        for ring in self.rings:
            if ring.age_s <= LEASE_S:
                for key in self.keys:
                    assert key.key.id not in self.closed or isinstance(ring.find(key.secret), Refusal)


@pytest.mark.parametrize("backend", ["valkey"], indirect=True)
@settings(max_examples=60, deadline=None)
@given(st.lists(_STEPS, min_size=15, max_size=40))
def test_what_is_closed_stays_closed(redis_settings: RedisSettings, steps: list[tuple[str, Any]]) -> None:
    async def run() -> None:
        connections = Connections(redis_settings)
        try:
            await connections.commands.flushall()
            history = History(connections)
            await history.begin()
            for name, what in steps:
                await history.step(name, what)
                await history.check()
        finally:
            await connections.aclose()

    asyncio.run(run())
