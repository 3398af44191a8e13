"""Where keys are kept: what a gateway does while Redis is away, and with a file."""

from __future__ import annotations

from pathlib import Path

from dllm_stack.keys import KeyFile, KeyStore
from dllm_stack.keys.store import LEASE_S
from dllm_stack.settings import AccessSettings, Settings
from tests.gateway.access.kit import (
    assert_unauthorized,
    bearer,
    caught_up,
)
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import RestartableRedis, alone, serving, until


async def test_while_redis_is_away(redis: RestartableRedis, settings: Settings) -> None:
    """Those known may ask for what needs no Redis; generation says 503, as it does without keys."""
    async with alone(redis, settings) as (served, worker):
        store = KeyStore(worker.queue._connections)
        worker.blocks = ["Hi"]
        key, revoked = await store.create("acme"), await store.create("acme")
        await store.revoke([revoked.key.id])
        ring = await caught_up(served)
        known = bearer(key.secret)

        async def serves() -> bool:
            return (
                await served.http.post("/generate", json={"text": "Hi"}, headers=known)
            ).status_code == 200

        await until(serves)
        redis.stop()
        await until(lambda: ring.age_s > 0.8)
        assert (await served.http.get("/v1/models", headers=known)).status_code == 200
        refused = await served.http.post("/generate", json={"text": "Hi"}, headers=known)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "queue_unavailable")
        assert_unauthorized(await served.http.get("/v1/models", headers=bearer(revoked.secret)))
        new = await served.http.get("/v1/models", headers=bearer(key.secret[:-1]))
        assert (new.status_code, new.headers["retry-after"]) == (503, "5")
        assert ring._read_at is not None
        ring._read_at -= LEASE_S
        late = await served.http.get("/v1/models", headers=known)
        assert late.status_code == 503
        ring._read_at += LEASE_S
        redis.start()  # empty
        await until(serves)
        assert_unauthorized(await served.http.post("/generate", json={}, headers=bearer(revoked.secret)))
        [lost] = [value for name, _, value in await served.samples() if name == "dllm_access_keys_lost"]
        assert lost == 1


async def test_a_key_file(settings: Settings, tmp_path: Path, answering: FakeWorker) -> None:
    file = KeyFile(tmp_path / "keys.yaml")
    key = await file.create("acme")
    own = settings.model_copy(update={"access": AccessSettings(keys=str(file.path))})
    async with serving(own) as served:

        async def status() -> int:
            return (await served.http.get("/v1/models", headers=bearer(key.secret))).status_code

        async def opens() -> bool:
            return await status() == 200

        await until(opens)
        file.path.write_text("keys: [")

        async def broken() -> bool:
            return ("dllm_access_file_broken", {}, 1.0) in await served.samples()

        await until(broken)
        assert await status() == 200
        file.path.write_text("keys: []")

        async def opens_not() -> bool:
            return await status() == 401

        await until(opens_not)
