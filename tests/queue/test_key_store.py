"""Keys and tenants in each kind of Redis."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from dllm_stack.keys import Directory, KeyRing, KeyStore, Refusal, Revocation, StoreError
from dllm_stack.keys.directory import FORGET_S
from dllm_stack.keys.sources import RedisSource
from dllm_stack.keys.store import LEASE_S
from dllm_stack.messages import Tier
from dllm_stack.redis import Connections
from dllm_stack.tenants import Key, Limits, Tenant
from tests.keys.kit import PREFIX, pass_time


@pytest.fixture
async def store(connections: Connections) -> KeyStore:
    await pass_time(connections)
    return KeyStore(connections)


@pytest.fixture
async def ring(store: KeyStore) -> KeyRing:
    ring = KeyRing(RedisSource(store, "g"))
    await ring.refresh()
    return ring


async def test_the_life_of_a_key(store: KeyStore, ring: KeyRing) -> None:
    assert ring.directory == Directory()
    created = await store.create("acme", label="batch", expires=int(time.time()) + 3600)
    await ring.refresh()
    assert ring.find(created.secret) == created.key
    assert ring.tenant("acme") == Tenant(name="acme")
    change = await store.revoke([created.key.id])
    assert await store.behind(change) == ["g"]
    await ring.refresh()
    assert await store.behind(change) == []
    assert ring.find(created.secret) is Refusal.REVOKED
    assert await store.revoke([created.key.id]) == change, "twice is once"


async def test_a_rotated_key_lives_on_for_a_while(store: KeyStore, ring: KeyRing) -> None:
    old = await store.create("acme", label="batch", admin=True)
    new = await store.rotate(old.key.id, 60)
    assert (new.key.tenant, new.key.label, new.key.admin) == ("acme", "batch", True)
    await ring.refresh()
    assert ring.find(old.secret) == old.key
    assert ring.find(new.secret) == new.key
    end = ring.directory.end(old.key)
    assert end is not None
    assert ring.directory.find(old.secret, end) is Refusal.REVOKED
    with pytest.raises(StoreError, match="revoked or rotated already"):
        await store.rotate(old.key.id, 60)
    await store.revoke([old.key.id])
    await ring.refresh()
    assert isinstance(ring.find(old.secret), Refusal), "a revocation does not wait for the end of a rotation"
    at_once = await store.rotate(new.key.id, 0)
    await ring.refresh()
    assert isinstance(ring.find(new.secret), Refusal)
    assert ring.find(at_once.secret) == at_once.key


async def test_of_two_who_rotate_a_key_one_does(store: KeyStore) -> None:
    old = await store.create("acme")
    results = await asyncio.gather(*(store.rotate(old.key.id, 9) for _ in range(4)), return_exceptions=True)
    assert sum(not isinstance(result, StoreError) for result in results) == 1
    assert len((await store.read()).keys) == 2


async def test_what_has_changed_is_told_alone(store: KeyStore, ring: KeyRing) -> None:
    first, second = await store.create("acme"), await store.create("acme")
    await ring.refresh()
    assert isinstance(ring.source, RedisSource)
    change = ring.source._change
    third = await store.create("other")
    await store.revoke([first.key.id])
    await store.change_tenant("acme", {"weight": 2.0})
    news = await store.look("", change)
    assert not news.whole
    assert news.directory is not None
    assert news.directory.keys == {third.key.id: third.key}
    assert news.directory.revoked.keys() == {first.key.id}
    assert news.directory.tenants == {
        "acme": Tenant(name="acme", weight=2.0),
        "other": Tenant(name="other"),
    }
    await ring.refresh()
    assert ring.directory == await store.read()
    await store.delete_tenant("other")
    await ring.refresh()
    assert [key for key in (first, second, third) if ring.find(key.secret) == key.key] == [second]
    assert (await store.look("", "2-of another history")).whole


async def test_what_cannot_be_rotated(store: KeyStore) -> None:
    with pytest.raises(StoreError, match="There is no key dk-0000000000000000"):
        await store.rotate("dk-0000000000000000", 9)
    expired = await store.create("acme", expires=int(time.time()))
    with pytest.raises(StoreError, match="has expired"):
        await store.rotate(expired.key.id, 9)


@pytest.mark.parametrize("tenant", ["", "a b", "a:b", "a" * 65, "acme\n"])
async def test_no_key_is_made_for_what_is_no_tenant(store: KeyStore, tenant: str) -> None:
    with pytest.raises(StoreError, match=r"^tenant: "):
        await store.create(tenant)
    assert await store.read() == Directory()


async def test_a_tenant_is_changed_in_part(store: KeyStore, ring: KeyRing) -> None:
    await store.change_tenant("acme", {"weight": 2.0, "requests_per_minute": 60})
    changed = await store.change_tenant("acme", {"tiers": [Tier.FLEX], "models": ["tiny"], "concurrency": 4})
    await ring.refresh()
    assert ring.tenant("acme") == changed
    assert (changed.weight, changed.tiers, changed.models) == (2.0, [Tier.FLEX], ["tiny"])
    assert changed.limits == Limits(requests_per_minute=60, concurrency=4)
    await store.create("acme")
    assert (await store.read()).tenants["acme"] == changed, "a new key leaves its tenant alone"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"weight": 0.0}, "weight"),
        ({"weight": float("inf")}, "weight"),
        ({"tiers": []}, "tiers"),
        ({"tiers": ["gold"]}, "tiers"),
        ({"models": []}, "models"),
        ({"concurrency": 0}, "limits.concurrency"),
        ({"tokens_per_minute": -1}, "limits.tokens_per_minute"),
    ],
)
async def test_what_a_tenant_cannot_be(store: KeyStore, change: dict[str, Any], name: str) -> None:
    with pytest.raises(StoreError, match=name):
        await store.change_tenant("acme", change)
    assert (await store.read()).tenants == {}


async def test_changes_at_once_are_all_made(store: KeyStore) -> None:
    changes: list[dict[str, Any]] = [
        {"weight": 2.0},
        {"requests_per_minute": 1},
        {"tokens_per_minute": 2},
        {"concurrency": 3},
    ]
    await asyncio.gather(*(store.change_tenant("acme", change) for change in changes))
    tenant = (await store.read()).tenants["acme"]
    assert (tenant.weight, tenant.limits) == (
        2.0,
        Limits(requests_per_minute=1, tokens_per_minute=2, concurrency=3),
    )


async def test_a_deleted_tenant_takes_its_keys_along(store: KeyStore, ring: KeyRing) -> None:
    mine, others = await store.create("acme"), await store.create("other")
    deleted = await store.delete_tenant("acme")
    assert deleted.key_ids == [mine.key.id]
    await ring.refresh()
    assert ring.find(mine.secret) is Refusal.REVOKED
    assert ring.tenant("acme") is None
    assert ring.find(others.secret) == others.key
    again = await store.create("acme")
    await ring.refresh()
    assert ring.find(again.secret) == again.key, "another tenant of the same name"
    assert ring.find(mine.secret) is Refusal.REVOKED


async def test_what_redis_has_lost(store: KeyStore, ring: KeyRing, connections: Connections) -> None:
    """Doors stay closed, those who are known go on, and orders of before and after both count."""
    revoked, known, doomed = [await store.create(name) for name in ("acme", "acme", "doomed")]
    await store.revoke([revoked.key.id])
    await ring.refresh()
    await connections.commands.flushall()
    await ring.refresh()
    assert ring.find(revoked.secret) is Refusal.REVOKED
    assert ring.find(known.secret) == known.key
    assert ring.source.lost == 2
    assert revoked.key.id in (await store.read()).revoked, "the ring has told Redis again"
    new_ring = KeyRing(RedisSource(store, "new"))
    await new_ring.refresh()
    assert [new_ring.find(each.secret) for each in (revoked, known)] == 2 * [Refusal.UNKNOWN]
    # Redis does not know this key, and still it can be revoked.
    await store.revoke([known.key.id])
    await ring.refresh()
    assert ring.find(known.secret) is Refusal.REVOKED
    assert ring.find(doomed.secret) == doomed.key
    await asyncio.sleep(1.01 - time.time() % 1)  # a tenant is deleted with its keys of earlier seconds
    await store.delete_tenant("doomed")
    await ring.refresh()
    assert ring.find(doomed.secret) is Refusal.REVOKED
    assert ring.source.lost == 0
    await connections.commands.flushall()
    await ring.refresh()
    assert (await store.read()).departed.keys() == {"doomed"}


async def test_redis_goes_back_in_time(store: KeyStore, ring: KeyRing, connections: Connections) -> None:
    """As a replica does that becomes master without the last writes."""
    redis = connections.commands
    revoked = await store.create("acme")
    names = [PREFIX + name for name in ("keys", "tenants", "change", "history", "touched")]
    before = {name: await redis.dump(name) for name in names}
    await store.revoke([revoked.key.id])
    late = await store.create("acme")
    await ring.refresh()
    await redis.delete(PREFIX + "revoked")
    for name, value in before.items():
        await redis.restore(name, 0, value, replace=True)
    # What comes next gets a change that was there before.
    other = await store.create("acme")
    await ring.refresh()
    assert ring.find(revoked.secret) is Refusal.REVOKED
    assert ring.find(late.secret) == late.key
    assert ring.find(other.secret) == other.key
    assert revoked.key.id in (await store.read()).revoked


async def test_a_second_loss_is_seen_too(
    store: KeyStore, ring: KeyRing, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both times Redis is empty, and in between somebody else was told of a revocation."""
    key = await store.create("acme")
    await ring.refresh()
    await connections.commands.flushall()
    await ring.refresh()
    assert ring.find(key.secret) == key.key
    await store.revoke([key.key.id])
    await connections.commands.flushall()
    assert ring._read_at is not None
    monkeypatch.setattr(ring, "_read_at", ring._read_at - LEASE_S)
    await ring.refresh()
    assert isinstance(ring.find(key.secret), Refusal)


async def test_who_was_away_for_long_does_not_count_on_what_it_knew(
    store: KeyStore, ring: KeyRing, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The revocation of its key may be among what is lost."""
    key = await store.create("acme")
    await ring.refresh()
    assert ring.find(key.secret) == key.key
    await store.revoke([key.key.id])
    await connections.commands.flushall()
    assert ring._read_at is not None
    monkeypatch.setattr(ring, "_read_at", ring._read_at - LEASE_S)
    await ring.refresh()
    assert isinstance(ring.find(key.secret), Refusal)


async def test_a_dead_gateway_is_waited_for_until_it_knows_nothing(
    store: KeyStore, ring: KeyRing, connections: Connections
) -> None:
    key = await store.create("acme")
    change = await store.revoke([key.key.id])
    assert await store.behind(change) == ["g"]
    await connections.commands.zincrby(PREFIX + "rings", -1000 * LEASE_S, "g")
    assert await store.behind(change) == []


async def test_a_redis_that_was_empty_a_moment_ago_may_have_forgotten_gateways(
    store: KeyStore, ring: KeyRing, connections: Connections
) -> None:
    await connections.commands.flushall()
    change = await store.revoke(["dk-0123456789abcdef"])
    assert await store.behind(change) == ["?"]
    await ring.refresh()
    assert await store.behind(change) == ["?"]
    await pass_time(connections)
    assert await store.behind(change) == []


async def test_a_gateway_that_left_is_not_waited_for(store: KeyStore, ring: KeyRing) -> None:
    key = await store.create("acme")
    await ring.aclose()
    assert await store.behind(await store.revoke([key.key.id])) == []


async def test_a_change_that_redis_loses_is_not_said_to_be_in_force(
    store: KeyStore, ring: KeyRing, connections: Connections
) -> None:
    change = await store.revoke([(await store.create("acme")).key.id])
    await connections.commands.flushall()
    for _ in range(9):  # others may get its number
        with pytest.raises(StoreError, match="lost this change"):
            await store.behind(change)
        await store.create("acme")
        await ring.refresh()


async def test_keys_that_ended_long_ago_make_room(store: KeyStore, connections: Connections) -> None:
    old = await store.create("acme")
    revocation = Revocation(at=int(time.time()) - FORGET_S - 1, ends=0)
    await store.tell({old.key.id: revocation}, {})
    expired = await store.create("acme", expires=int(time.time()) - FORGET_S - 1)
    new = await store.create("acme")
    directory = await store.read()
    assert directory.keys.keys() == {new.key.id}
    assert expired.key.id not in directory.keys
    assert directory.revoked == {}


async def test_an_entry_that_cannot_be_read_opens_nothing(
    store: KeyStore, ring: KeyRing, connections: Connections
) -> None:
    key, other = await store.create("acme"), await store.create("acme")
    entry = msgspec.to_builtins(key.key) | {"from": "another version"}
    await connections.commands.hset(PREFIX + "keys", key.key.id, msgspec.json.encode(entry))
    await connections.commands.hset(PREFIX + "keys", b"\xff", b"no JSON")
    await ring.refresh()
    assert isinstance(ring.find(key.secret), Refusal)
    assert ring.find(other.secret) == other.key


async def test_redis_holds_no_secret(store: KeyStore, connections: Connections) -> None:
    secrets = [(await store.create("acme")).secret]
    secrets.append((await store.rotate(secrets[0][:19], 9)).secret)
    held = await connections.commands.hgetall(PREFIX + "keys")
    assert [msgspec.json.decode(entry, type=Key).tenant for entry in held.values()] == ["acme", "acme"]
    assert not any(secret[20:].encode() in entry for secret in secrets for entry in held.values())
