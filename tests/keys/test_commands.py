"""`dllm-stack keys` and `dllm-stack tenants`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from typer.testing import CliRunner

from dllm_stack import log
from dllm_stack.cli import app
from dllm_stack.keys import Directory, KeyFile, KeyRing, KeyStore, Refusal
from dllm_stack.keys.sources import RedisSource
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings
from dllm_stack.tenants import Key
from tests.keys.kit import pass_time


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The cells of each line, which have two spaces between them."""
        lines = (line.split("  ") for line in self.out.splitlines())
        return [[cell.strip() for cell in cells if cell.strip()] for cells in lines]


@pytest.fixture(autouse=True)
def logs_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs in this process, whose logs are no matter of its own."""
    monkeypatch.setattr(log, "configure", lambda *_: None)


class Shell:
    def __init__(self, redis: RedisSettings, *options: str) -> None:
        self._env = {"DLLM_REDIS__URL": redis.url, "DLLM_REDIS__TIMEOUT_S": str(redis.timeout_s)}
        self._options = options

    async def keys(self, *arguments: str) -> Result:
        return await self._run("keys", *arguments)

    async def tenants(self, *arguments: str) -> Result:
        return await self._run("tenants", *arguments)

    async def _run(self, *arguments: str) -> Result:
        done = await asyncio.to_thread(CliRunner().invoke, app, [*arguments, *self._options], env=self._env)
        return Result(done.exit_code, done.stdout, done.stderr)


@pytest.fixture(autouse=True)
async def not_empty_a_moment_ago(connections: Connections) -> None:
    await pass_time(connections)


@pytest.fixture(params=["redis", "file"])
def shell(
    request: pytest.FixtureRequest, connections: Connections, redis_settings: RedisSettings, tmp_path: Path
) -> Shell:
    options = ["--file", str(tmp_path / "keys.yaml")] if request.param == "file" else []
    return Shell(redis_settings, *options)


@pytest.fixture
def store(
    shell: Shell, request: pytest.FixtureRequest, connections: Connections, tmp_path: Path
) -> KeyStore | KeyFile:
    kind = request.node.callspec.params["shell"]
    return KeyFile(tmp_path / "keys.yaml") if kind == "file" else KeyStore(connections)


async def test_the_life_of_a_key(shell: Shell, store: KeyStore | KeyFile) -> None:
    created = await shell.keys("create", "acme", "--label", "nightly", "--expires", "90d")
    assert created.status == 0
    secret, key_id = created.out.strip(), created.out[:19]
    directory = await store.read()
    assert directory.find(secret, 0) == directory.keys[key_id]
    assert created.err.startswith(f"{key_id} opens the API as acme. Its secret is shown this once.")

    listed = await shell.keys("list")
    assert secret[20:] not in listed.out
    [_, row] = listed.rows
    assert row[:3] == [key_id, "acme", "API"]
    assert (row[3], row[-1]) == ("open for 90 d", "nightly")

    rotated = await shell.keys("rotate", key_id[:8], "--grace", "1h", "--json")
    new: dict[str, Any] = json.loads(rotated.out)
    assert (new["tenant"], new["label"]) == ("acme", "nightly")
    directory = await store.read()
    assert {directory.find(each, 0) for each in (secret, new["secret"])} == set(directory.keys.values())
    states = {each["id"]: each["state"] for each in json.loads((await shell.keys("list", "--json")).out)}
    assert states == {key_id: "open", new["id"]: "open"}

    revoked = await shell.keys("revoke", key_id, new["secret"])
    assert revoked.status == 0, revoked.err
    assert (await shell.keys("list")).err == "There are no keys.\n"
    again = await shell.keys("rotate", key_id)
    assert (again.status, again.out) == (1, "")
    assert key_id in again.err


async def test_the_life_of_a_tenant(shell: Shell, store: KeyStore | KeyFile) -> None:
    await shell.keys("create", "acme")
    options = ("--weight", "2.5", "--tiers", "flex,default", "--models", "a,b", "--tokens-per-minute", "9000")
    assert (await shell.tenants("set", "acme", *options)).status == 0
    changed = await shell.tenants("set", "acme", "--weight", "none", "--concurrency", "4")
    assert changed.rows[1] == ["acme", "-", "flex, default", "a, b", "-", "9000", "4", "1"]
    assert (await shell.tenants("set", "acme", "--models", "all", "--tokens-per-minute", "none")).status == 0
    [told] = json.loads((await shell.tenants("list", "--json")).out)
    assert told == {"name": "acme", "tiers": ["flex", "default"], "limits": {"concurrency": 4}}
    assert (await shell.tenants("delete", "acme")).status == 0
    again = await shell.tenants("delete", "acme")
    assert (again.status, again.err.splitlines()[-1]) == (1, "There was no tenant 'acme'.")
    assert "is deleted" not in again.err
    directory = await store.read()
    assert directory.tenants == {}
    assert [key for key in directory.keys.values() if directory.state(key, 0) is None] == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("create", "a b"), "tenant"),
        (("create", "acme", "--expires", "soon"), "--expires: must be a number above 0"),
        (("create", "acme", "--expires", "0d"), "--expires: must be a number above 0"),
        (("rotate", "dk-0123456789abcdef", "--grace", "-1h"), "--grace: must be a number and a unit"),
        (("revoke", "nothing"), "There is no key 'nothing'."),
        (("revoke", "a-secret-of-something-else"), "There is no key 'a-secr...'."),
        (("list", "--file", "/nowhere/keys.yaml"), "/nowhere/keys.yaml: No such file"),
        (("rotate", "dk-0123456789abcdef"), "There is no key dk-0123456789abcdef"),
    ],
)
async def test_what_is_wrong_is_named(
    redis_settings: RedisSettings, arguments: tuple[str, ...], named: str
) -> None:
    result = await Shell(redis_settings).keys(*arguments)
    assert result.status in (1, 2)
    assert result.out == ""
    assert named in result.err


async def test_a_tenant_that_cannot_be(redis_settings: RedisSettings, connections: Connections) -> None:
    shell = Shell(redis_settings)
    wrong = (
        ("--weight", "x"),
        ("--tiers", "gold"),
        ("--models", "a,"),
        ("--concurrency", "0"),
        ("--weight", "-1"),
    )
    for option, value in wrong:
        result = await shell.tenants("set", "acme", option, value)
        assert result.status in (1, 2)
        assert option.strip("-") in result.err
    assert await KeyStore(connections).read() == Directory()


async def test_an_entry_for_a_file_is_kept_nowhere(
    redis_settings: RedisSettings, connections: Connections, tmp_path: Path
) -> None:
    result = await Shell(redis_settings).keys("create", "ops", "--admin", "--entry")
    secret, _, entry = result.out.partition("\n")
    file = KeyFile(tmp_path / "keys.yaml")
    file.path.write_text(yaml.safe_dump({"tenants": [{"name": "ops"}], "keys": yaml.safe_load(entry)}))
    found = (await file.read()).find(secret, 0)
    assert isinstance(found, Key)
    assert found.admin
    assert await KeyStore(connections).read() == Directory()


async def test_a_revocation_waits_for_every_gateway(
    redis_settings: RedisSettings, connections: Connections
) -> None:
    store = KeyStore(connections)
    key, lost = await store.create("acme"), "dk-0123456789abcdef"
    ring = KeyRing(RedisSource(store, "g"))
    await ring.refresh()

    async def look() -> None:
        while True:
            await ring.keep_fresh()

    looking = asyncio.create_task(look())
    result = await Shell(redis_settings).keys("revoke", key.key.id)
    assert isinstance(ring.find(key.secret), Refusal)
    assert (result.status, result.out) == (0, f"{key.key.id} is revoked: every gateway refuses it.\n")
    unknown = await Shell(redis_settings).keys("revoke", lost)
    assert unknown.status == 1
    assert f"Redis does not know {lost}" in unknown.err
    assert lost in (await store.read()).revoked
    looking.cancel()


async def test_a_file_that_is_broken_is_left_alone(redis_settings: RedisSettings, tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text("keys: [")
    result = await Shell(redis_settings, "--file", str(file)).keys("create", "acme")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith(f"{file} is no YAML in line 2")
    assert file.read_text() == "keys: ["


async def test_redis_is_away(redis_settings: RedisSettings) -> None:
    result = await Shell(RedisSettings(url="redis://127.0.0.1:1")).keys("list")
    assert (result.status, result.out) == (1, "")
    assert "redis://127.0.0.1:1" in result.err
