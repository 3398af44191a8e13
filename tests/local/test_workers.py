"""Which workers `up` starts on a machine with GPUs, which is a fake here."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dllm_stack.local.stack import Stack
from dllm_stack.local.workers import workers
from dllm_stack.settings import GatewaySettings, RouterSettings, Settings, UpSettings, WorkerSettings
from tests.worker.test_layout import H200S, MI300XS
from worker.engine import hardware
from worker.engine.hardware import Hardware

CUDA, HIP = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for variable in (CUDA, HIP, "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(variable, raising=False)
    has(monkeypatch, H200S)
    return monkeypatch


def has(monkeypatch: pytest.MonkeyPatch, found: Hardware) -> None:
    monkeypatch.setattr(hardware, "detect", lambda: found)


def settings(*models: str, profile: str = "h200-8x", **worker: Any) -> Settings:
    return Settings(
        up=UpSettings(models=list(models)),
        gateway=GatewaySettings(port=0),
        router=RouterSettings(port=0),
        worker=WorkerSettings(profile=profile, **({"port": 9000} | worker)),
    )


def test_a_machine_of_eight_runs_two_engines_of_four() -> None:
    found = workers(settings("llada2.1-flash"))
    assert [(each.name, each.model, each.listener.port) for each in found] == [
        ("worker-1", "llada2.1-flash", 9000),
        ("worker-2", "llada2.1-flash", 9001),
    ]
    assert [each.env[CUDA] for each in found] == ["0,1,2,3", "4,5,6,7"]


def test_on_amd(machine: pytest.MonkeyPatch) -> None:
    has(machine, MI300XS)
    found = workers(settings("llada2.1-flash", profile="mi300x-8x"))
    assert [each.env for each in found] == [{HIP: "0,1,2,3"}, {HIP: "4,5,6,7"}]


def test_engine_args_outrank_the_profile() -> None:
    found = workers(settings("llada2.1-mini", engine_args=["--tp", "2"]))
    assert [each.env[CUDA] for each in found] == ["0,1", "2,3", "4,5", "6,7"]
    assert len(workers(settings("llada2.1-mini"))) == 8


def test_two_models_share_the_machine() -> None:
    found = workers(settings("llada2.1-mini", "llada2.1-flash"))
    assert [(each.model, len(each.env[CUDA].split(","))) for each in found] == [
        *[("llada2.1-mini", 1)] * 4,
        ("llada2.1-flash", 4),
    ]
    assert len({gpu for each in found for gpu in each.env[CUDA].split(",")}) == 8


def test_of_tp_4_on_three_gpus_there_is_one(machine: pytest.MonkeyPatch) -> None:
    """Which sees all three, and says that they are too few."""
    has(machine, Hardware("nvidia", H200S.gpus[:3]))
    assert [each.env for each in workers(settings("llada2.1-flash"))] == [{}]


def test_models_for_which_there_are_too_few_gpus_share_them(machine: pytest.MonkeyPatch) -> None:
    has(machine, Hardware("nvidia", H200S.gpus[:1]))
    found = workers(settings("llada2.1-mini", "llada2.0-mini"))
    assert [(each.model, each.env) for each in found] == [("llada2.1-mini", {}), ("llada2.0-mini", {})]


@pytest.mark.parametrize(
    "given",
    [
        settings("llada2.1-flash", engine_url="http://127.0.0.1:30000"),
        settings("llada2.1-flash", profile="mi300x-8x"),  # not this machine's
        settings("no-such-model"),
        settings("dllm-demo"),  # not in the profile
        settings("llada2.1-flash", engine_args=["--tp", "16"]),
        settings("llada2.1-flash", engine_args=["--tp", "two"]),
        settings("llada2.1-flash", engine_args=["tp"]),
        settings("dllm-demo", profile="cpu-dev"),
    ],
)
def test_otherwise_there_is_one_worker_which_says_what_is_wrong(given: Settings) -> None:
    [found] = workers(given)
    assert (found.name, found.env) == ("worker", {})


def test_each_worker_is_a_process_with_its_gpus_and_its_port(tmp_path: Path) -> None:
    stack = Stack(settings("llada2.1-flash"), tmp_path, Console(file=io.StringIO()))
    of_workers = [each.environment for each in stack.services if each.name.startswith("worker")]
    assert [(each[CUDA], each["DLLM_WORKER__PORT"]) for each in of_workers] == [
        ("0,1,2,3", "9000"),
        ("4,5,6,7", "9001"),
    ]
