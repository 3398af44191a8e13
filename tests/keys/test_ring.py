"""What a gateway knows of keys while Redis, or the file that they are in, is not as it should be."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from dllm_stack.keys import KeyFile, KeyFileError, KeyRing, KeyStore, Refusal
from dllm_stack.keys.ring import FRESH_S
from dllm_stack.keys.sources import FileSource, RedisSource
from dllm_stack.keys.store import LEASE_S
from dllm_stack.redis import Connections, RedisError
from dllm_stack.settings import RedisSettings
from tests.gateway.served import RestartableRedis


@pytest.fixture
def redis() -> Iterator[RestartableRedis]:
    redis = RestartableRedis()
    yield redis
    redis.close()


@pytest.fixture
async def store(redis: RestartableRedis) -> AsyncIterator[KeyStore]:
    connections = Connections(RedisSettings(url=redis.url, timeout_s=3))
    yield KeyStore(connections)
    await connections.aclose()


@pytest.fixture
async def ring(store: KeyStore) -> KeyRing:
    ring = KeyRing(RedisSource(store, "g"))
    await ring.refresh()
    return ring


def age(ring: KeyRing, seconds: float) -> None:
    """Lets what the ring knows be so much older."""
    assert ring._read_at is not None
    ring._read_at -= seconds


async def test_what_is_old_is_read_again_before_it_is_used(store: KeyStore, ring: KeyRing) -> None:
    key = await store.create("acme")
    assert await ring.freshen()
    assert isinstance(ring.find(key.secret), Refusal)
    age(ring, FRESH_S)
    assert await ring.freshen()
    assert ring.find(key.secret) == key.key


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
async def test_while_redis_is_away_those_known_go_on_for_a_while(
    store: KeyStore, ring: KeyRing, redis: RestartableRedis, how: signal.Signals
) -> None:
    key, revoked = await store.create("acme"), await store.create("acme")
    await store.revoke([revoked.key.id])
    await ring.refresh()
    redis.signal(how)
    try:
        age(ring, FRESH_S)
        fresh = await asyncio.gather(*(ring.freshen() for _ in range(50)))
        assert not any(fresh)
        assert ring.find(key.secret) == key.key
        assert ring.find(revoked.secret) is Refusal.REVOKED
        age(ring, LEASE_S)
        with pytest.raises(RedisError):
            await ring.freshen()
    finally:
        redis.signal(signal.SIGCONT)


async def test_redis_comes_back_empty(store: KeyStore, ring: KeyRing, redis: RestartableRedis) -> None:
    key, revoked = await store.create("acme"), await store.create("acme")
    await store.revoke([revoked.key.id])
    await ring.refresh()
    redis.stop()
    redis.start()
    await ring.refresh()
    assert ring.find(key.secret) == key.key
    assert ring.find(revoked.secret) is Refusal.REVOKED
    assert revoked.key.id in (await store.read()).revoked


async def test_nothing_is_known_until_redis_has_answered(store: KeyStore, redis: RestartableRedis) -> None:
    key = await store.create("acme")
    redis.stop()
    ring = KeyRing(RedisSource(store, "g"))
    with pytest.raises(RedisError):
        await ring.freshen()
    assert isinstance(ring.find(key.secret), Refusal)


async def test_a_full_redis_still_closes_doors(
    store: KeyStore, ring: KeyRing, redis: RestartableRedis
) -> None:
    key = await store.create("acme")
    await store._scripts._connections.commands.config_set("maxmemory", 1)
    with pytest.raises(RedisError, match="maxmemory"):
        await store.create("acme")
    await store.revoke([key.key.id])
    await ring.refresh()
    assert ring.find(key.secret) is Refusal.REVOKED
    await store.delete_tenant("acme")


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.yaml")


async def test_a_file_is_read_again_when_it_changes(file: KeyFile) -> None:
    first = await file.create("acme")
    ring = KeyRing(FileSource(file.path))
    await ring.refresh()
    assert ring.find(first.secret) == first.key
    second = await file.create("acme")
    await file.revoke([first.key.id])
    await file.change_tenant("acme", {"weight": 3.0})
    await ring.refresh()
    assert isinstance(ring.find(first.secret), Refusal)
    assert ring.find(second.secret) == second.key
    tenant = ring.tenant("acme")
    assert tenant is not None
    assert tenant.weight == 3.0
    rotated = await file.rotate(second.key.id, 0)
    await ring.refresh()
    assert ring.find(second.secret) is Refusal.EXPIRED
    assert ring.find(rotated.secret) == rotated.key
    assert (await file.delete_tenant("acme")).key_ids == [second.key.id, rotated.key.id]
    await ring.refresh()
    assert isinstance(ring.find(rotated.secret), Refusal)


async def test_a_secret_is_mounted_by_links_that_move(file: KeyFile, tmp_path: Path) -> None:
    """As kubelet does it: keys.yaml -> ..data/keys.yaml, ..data -> a folder, and the link is replaced."""
    first, second = tmp_path / "first", tmp_path / "second"
    keys = []
    for folder in (first, second):
        folder.mkdir()
        keys.append(await KeyFile(folder / "keys.yaml").create("acme"))
    data = tmp_path / "..data"
    data.symlink_to(first)
    file.path.symlink_to(data / "keys.yaml")
    ring = KeyRing(FileSource(file.path))
    await ring.refresh()
    assert ring.find(keys[0].secret) == keys[0].key
    (tmp_path / "..next").symlink_to(second)
    (tmp_path / "..next").replace(data)
    await ring.refresh()
    assert [ring.find(key.secret) for key in keys] == [Refusal.UNKNOWN, keys[1].key]


BROKEN = {
    "nothing": "",
    "no YAML": "keys: [",
    "no day": "keys: [{expires: 2026-02-31}]",
    "no mapping": "- keys",
    "an unknown field": "keys: []\ntenant: []",
    "a key without its tenant": f"keys: [{{id: dk-{'0' * 16}, digest: '{'0' * 64}', tenant: a, created: 1}}]",
    "a secret for a digest": "keys: [{id: dk-0000000000000000, digest: sesame, tenant: a, created: 1}]",
    "a tenant twice": "tenants: [{name: a}, {name: a}]",
    "a tier that is none": "tenants: [{name: a, tiers: [gold]}]",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
async def test_a_broken_file_leaves_all_as_it_was(
    file: KeyFile, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    key = await file.create("acme")
    good = file.path.read_text()
    ring = KeyRing(FileSource(file.path))
    await ring.refresh()
    file.path.write_text(text)
    for _ in range(3):
        await ring.refresh()
    assert ring.find(key.secret) == key.key
    assert ring.source.broken
    told = capsys.readouterr().out
    assert told.count("the key file cannot be used") == 1
    assert "sesame" not in told
    with pytest.raises(KeyFileError):
        await KeyRing(FileSource(file.path)).refresh()
    file.path.write_text(good)
    await ring.refresh()
    assert not ring.source.broken


async def test_a_file_that_is_gone_leaves_all_as_it_was(file: KeyFile) -> None:
    key = await file.create("acme")
    ring = KeyRing(FileSource(file.path))
    await ring.refresh()
    file.path.unlink()
    age(ring, 2 * LEASE_S)
    assert await ring.freshen()
    assert ring.find(key.secret) == key.key
    assert ring.source.broken


async def test_a_file_is_for_its_owner_alone_and_holds_no_secret(file: KeyFile) -> None:
    created = await file.create("acme", label="ü: {")
    assert file.path.stat().st_mode & 0o077 == 0
    text = file.path.read_text()
    assert created.secret[20:] not in text
    assert yaml.safe_load(text)["keys"][0]["label"] == "ü: {"
    assert [path.name for path in file.path.parent.iterdir()] == ["keys.yaml"]
