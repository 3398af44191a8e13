"""Settings come from defaults, a file and the environment; a wrong one stops the service by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dllm_stack import settings
from dllm_stack.cli import app


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLLM_CONFIG", "")  # and whatever a test sets is undone


def test_the_environment_wins_over_the_file_and_the_file_over_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("gateway: {port: 9000, drain_s: 5}\nworker: {engine_args: [--dtype, float32]}\n")
    monkeypatch.setenv("DLLM_GATEWAY__PORT", "9001")
    loaded = settings.load(file)
    assert (loaded.gateway.port, loaded.gateway.drain_s) == (9001, 5)
    assert loaded.worker.engine_args == ["--dtype", "float32"]
    assert loaded.router.port == 8001


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("DLLM_GATEWAY__PORT", "99999", "gateway.port"),
        ("DLLM_GATEWAY__PROT", "1", "gateway.prot"),
        ("DLLM_GATEWY__PORT", "1", "DLLM_GATEWY__PORT"),
        ("DLLM_LOG_LEVEL", "loud", "log_level"),
        ("DLLM_LOGLEVEL", "debug", "DLLM_LOGLEVEL"),
        ("DLLM_QUEUE__HEARTBEAT_TTL_S", "1.5", "heartbeat_ttl_s"),
        ("DLLM_WORKER__ENGINE_ARGS", "--dtype float32", "worker"),
        ("DLLM_REDIS__URL", "localhost:6379", "redis.url"),
        ("DLLM_REDIS__URL", "redis://localhost:port", "redis.url"),
        ("DLLM_QUEUE__HEARTBEAT_TTL_S", "inf", "heartbeat_ttl_s"),
    ],
)
def test_a_wrong_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, named: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(settings.SettingsError, match=named):
        settings.load()
    result = CliRunner().invoke(app, ["router"])
    assert result.exit_code == 2
    assert named in result.output


def test_what_kubernetes_says_of_its_services_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "DLLM_STACK_GATEWAY_SERVICE_HOST": "10.0.0.1",
        "DLLM_STACK_GATEWAY_SERVICE_PORT_HTTP": "8000",
        "DLLM_STACK_GATEWAY_PORT": "tcp://10.0.0.1:8000",
        "DLLM_STACK_GATEWAY_PORT_8000_TCP_ADDR": "10.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    assert settings.load().gateway.port == 8000
    monkeypatch.setenv("DLLM_GATEWAY_PORT", "9000")
    with pytest.raises(settings.SettingsError, match="DLLM_GATEWAY_PORT"):
        settings.load()


def test_one_setting_of_a_group_leaves_the_others_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLLM_REDIS__TIMEOUT_S", "3")
    assert settings.load().redis.model_fields_set == {"timeout_s"}


@pytest.mark.parametrize("text", ["gateway: [", "gateway: {prot: 1}", "- 1"])
def test_a_wrong_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(settings.SettingsError):
        settings.load(file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(settings.SettingsError, match="nowhere"):
        settings.load(tmp_path / "nowhere.yaml")
