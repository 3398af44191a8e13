"""What `make bench-gpu-tensor` starts, in which order, and its tables; its engines are tried by hand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

import pytest

from dllm_stack.local.workers import workers
from dllm_stack.settings import Settings, WorkerSettings
from loadtest.gpu import architecture
from loadtest.gpu import engine as gpu_engine
from loadtest.gpu import steps as one_gpu
from loadtest.gpu.engine import Device, Engine, Machine, Variant
from loadtest.gpu.questions import CHECKPOINT
from loadtest.gpu.steps import Measurement
from loadtest.gpu.tensor import __main__ as command
from loadtest.gpu.tensor import ids, serving, steps
from loadtest.gpu.tensor.report import Case, Differing, Report, Served
from worker import plan
from worker.engine import catalog, checkpoint, hardware
from worker.engine.command import EngineCommand
from worker.engine.hardware import Gpu


def machine(folder: Path, device: Device = "cuda") -> Machine:
    return Machine(device, None, folder, start_s=1)


class Started:
    """Notes what is started, in place of starting it, and asks nobody."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, measured_s: float = 0) -> None:
        self.sets: list[list[str]] = []
        self.asked: list[str] = []
        monkeypatch.setattr(gpu_engine, "started", self._started)
        monkeypatch.setattr(serving, "compare", self._compare)
        monkeypatch.setattr(ids, "_compared", self._compared)
        monkeypatch.setattr(one_gpu, "ask", self._ask)

    @contextmanager
    def _started(self, machine: Machine, variants: Sequence[Variant]) -> Iterator[list[Engine]]:
        self.sets.append([each.name for each in variants])
        engines = [Engine.__new__(Engine) for _ in variants]
        for engine, variant in zip(engines, variants, strict=True):
            engine.variant = variant
        yield engines

    def _compare(self, machine: Machine, load: serving.Load, deadline: float, report: Report) -> None:
        self.sets.append(["served"])
        report.serving += [
            Served(2, 1, 100, 10, 20, load.requests, load.requests),
            Served(1, 2, 150, 5, 8, load.requests, load.requests),
        ]

    async def _compared(self, engines: Sequence[Engine], count: int) -> list[Differing]:
        self.asked += [each.variant.name for each in engines]
        return [Differing("two GPUs", count, 2, [3, 5])]

    async def _ask(
        self, http: Any, model: Path, asked: Engine, algorithm: str, batch: int, load: Any, turn: object
    ) -> Measurement:
        if turn != "warm":
            self.asked.append(f"{turn} {batch} {asked.variant.name}")
        return Measurement(1, 1, 1, 100 * len(asked.variant.gpus or [0]), 1, 1)


def measure(folder: Path, *options: str, deadline: float = inf) -> Report:
    arguments = command.parser().parse_args(["--out", str(folder / "out.json"), *options])
    report = Report(arguments.out)
    command.measure(machine(folder), arguments, report, deadline)
    report.write()
    return report


def test_all_parts_take_three_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = Started(monkeypatch)
    measure(tmp_path, "--batches", "8", "--rounds", "2")
    demo = ["demo-tp1", "demo-tp2"]
    low = ["stock-LowConfidence-tp1", "ours-tp1", "stock-LowConfidence-tp2", "ours-tp2"]
    joint = [name.replace("LowConfidence", "JointThreshold") for name in low]
    assert started.sets == [[*low, *demo], ["served"], joint]
    rounds = [
        *(f"0 8 {name}" for name in low),
        *(f"1 8 {name}" for name in reversed(low)),
        *demo,
        *(f"0 8 {name}" for name in joint),
        *(f"1 8 {name}" for name in reversed(joint)),
    ]
    assert started.asked == rounds
    shown = capsys.readouterr().out
    assert "| LowConfidence | 8 | ours | 2 | 1.00 | 1.00 | 1.00 | 200.00 | 1.00 | 2.00 |" in shown
    assert "| two GPUs | 20 | 2 | 4.00 |" in shown
    tables = (tmp_path / "out.md").read_text()
    assert "| 1 | 2 | 1 | 150.00 | 5.00 | 8.00 | 256 of 256 | 1.50 |" in tables
    written = json.loads((tmp_path / "out.json").read_text())
    assert [len(written[part]) for part in command.PARTS] == [8, 1, 2]


@pytest.mark.parametrize("part", command.PARTS)
def test_each_part_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    started = Started(monkeypatch)
    report = measure(tmp_path, "--parts", part, "--algorithms", "LowConfidence", "--batches", "1")
    assert len(started.sets) == 1
    found = {"steps": report.steps, "ids": report.ids, "serving": report.serving}
    assert [name for name, its in found.items() if its] == [part]


def test_nothing_new_is_begun_once_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round of what has started is worth its start."""
    started = Started(monkeypatch)
    report = measure(tmp_path, "--rounds", "5", deadline=time.monotonic())
    assert len(started.sets) == 1
    assert {len(case.rounds) for case in report.steps} == {1}


def test_a_row_without_rounds_is_not_shown(tmp_path: Path) -> None:
    report = Report(tmp_path / "out.json")
    report.steps = [Case("LowConfidence", 1, "ours", gpus, []) for gpus in (1, 2)]
    report.write()
    assert (tmp_path / "out.md").read_text().count("\n") == 3  # the heads


def test_one_gpu_has_its_own_and_both_have_the_others() -> None:
    placed = {each.name: each.gpus for each in steps.engines("LowConfidence", 8)}
    assert list(placed.values()) == [(0,), (1,), (0, 1), (0, 1)]
    ours = [each.parameters["steps_per_round"] for each in steps.engines("LowConfidence", 8)[1::2]]
    assert ours == [64, 4]  # as the worker starts them


def test_answers_that_differ_and_where() -> None:
    expected = [[1, 2, 3], [1, 2, 3], [1, 2, 3]]
    seen = ids.differing("two GPUs", [[1, 2, 3], [1, 9, 3], [1, 2]], expected)
    assert seen == Differing("two GPUs", 3, 2, [1, 2])


def test_an_engine_of_the_demo_has_its_own_checkpoint(tmp_path: Path) -> None:
    of_demo, _ = ids.engines("cuda")
    ours = machine(tmp_path).command(steps.engines("LowConfidence", 8)[1], 1, tmp_path)
    demo = machine(tmp_path).command(of_demo, 1, tmp_path)
    assert "dummy" in ours
    assert "dummy" not in demo
    assert demo[demo.index("--model-path") + 1] == str(CHECKPOINT)
    assert demo[-2:] == ["--attention-backend=triton", "--cuda-graph-backend-decode=disabled"]


@pytest.mark.parametrize(("gpus", "seen"), [(1, ["0", "1"]), (2, ["0,1"])])
def test_the_workers_of_two_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, seen: list[str]
) -> None:
    """On a fake of them: what `up` would start, and that no worker would refuse it."""
    h200s = [Gpu("NVIDIA H200", 141 * 10**9, f"GPU-{number}", number) for number in range(2)]
    monkeypatch.setattr(hardware, "nvidia_gpus", lambda: h200s)
    model = architecture.write(tmp_path / "mini")
    for name, value in serving.settings(machine(tmp_path), gpus, concurrency=64).items():
        if name.startswith(("DLLM", "CUDA")):
            monkeypatch.setenv(name, value)
    settings = Settings()
    started = workers(settings)
    assert [each.env["CUDA_VISIBLE_DEVICES"] for each in started] == seen
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", started[-1].env["CUDA_VISIBLE_DEVICES"])
    assert settings.worker.checkpoint == str(model)
    values = _engine(settings.worker).values
    assert (values["--tp-size"], values["--load-format"]) == (str(gpus), "dummy")
    assert _engine(settings.worker).slots * len(started) == 64


def _engine(settings: WorkerSettings) -> EngineCommand:
    model = catalog.load_model(settings.model)
    location = checkpoint.locate(model, settings.checkpoint)
    facts = checkpoint.facts(model, location).model_copy(update={"chat_template": True})
    return plan._builder(settings, model, location, facts)(0, Path())
