"""The engine's configurations for a mixture of experts: where ours come from, and that SGLang finds them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.worker.test_command import build
from worker import cpu
from worker.engine import command, moe

NAME = "E=256,N=512,device_name=NVIDIA_H200"
OURS = {"1024": {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 16}}

# What SGLang finds on an H200 in its own folder and in each one given: for LLaDA2-mini, and for a model of
# which it has a file itself. In one process, since it takes a while to import.
ASKING = """
import json, os, sys, triton
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler
from sglang.srt.layers.moe.moe_runner.triton_utils import fused_moe_triton_config as found
set_global_server_args_for_scheduler(ServerArgs(model_path="dummy"))
triton.__version__ = "3.6.0"
found.get_device_name = lambda *_: "NVIDIA H200"
shapes = [(256, 512, False), (256, 512, True), (128, 704, True)]

def ask():
    found.get_moe_configs.cache_clear()
    return [found.get_moe_configs(E, N, None, down_moe=down) for E, N, down in shapes]

answers, variable, *folders = [ask()], *sys.argv[1:]
for os.environ[variable] in folders:
    answers.append(ask())
print(json.dumps(answers))
"""


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of configurations for an H200, in place of the repository's."""
    monkeypatch.delenv(moe.VARIABLE, raising=False)
    monkeypatch.setattr(command, "CONFIGS", tmp_path / "configs")
    folder = tmp_path / "configs" / "moe" / "triton_3_6_0"
    folder.mkdir(parents=True)
    for name in (NAME, f"{NAME}_down"):
        (folder / f"{name}.json").write_text(json.dumps(OURS))
    return folder


Found = list[dict[str, object] | None]  # for each of the shapes


def found(*folders: str) -> list[Found]:
    """In SGLang's own folder first."""
    asked = subprocess.run(
        [sys.executable, "-c", ASKING, moe.VARIABLE, *folders],
        env=os.environ | cpu.engine_environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    answers: list[Found] = json.loads(asked.stdout.splitlines()[-1])
    return answers


def test_sglang_finds_ours_beside_its_own(ours: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    built = build("llada2.1-mini", "h200-8x", run_dir=run_dir)
    for _ in range(2):  # as when an engine is started again
        built.write_files()
    assert built.env[moe.VARIABLE] == str(run_dir / "moe")
    its_own, (up, down, other) = found(built.env[moe.VARIABLE])
    assert up == down == OURS
    assert other == its_own[2]
    assert other is not None


def test_a_file_stands_in_for_sglangs_of_the_same_name(ours: Path, tmp_path: Path) -> None:
    spec = find_spec("sglang")
    assert spec is not None
    links = moe.links(ours.parent, tmp_path / "place")
    name = Path("configs/triton_3_6_0") / f"{NAME}.json"
    assert links[tmp_path / "place" / name] == ours / f"{NAME}.json"
    others = [target for target in links.values() if ours not in target.parents]
    assert len(links) - len(others) == 2
    assert all(target.is_file() for target in links.values())
    assert len({path.parent for path in others}) > 3


@pytest.mark.parametrize("profile", ["h20-8x", "h100-8x", "b200-8x", "mi300x-8x", "cpu-dev"])
@pytest.mark.usefixtures("ours")
def test_nothing_changes_on_another_gpu(profile: str) -> None:
    built = build("tiny-llada2" if profile == "cpu-dev" else "llada2.1-mini", profile)
    assert moe.VARIABLE not in built.env
    assert not built.links


@pytest.mark.usefixtures("ours")
def test_a_folder_of_the_users_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(moe.VARIABLE, "/mine")
    built = build("llada2.1-mini", "h200-8x")
    assert moe.VARIABLE not in built.env
    assert not built.links


def test_nothing_changes_without_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "CONFIGS", tmp_path)
    assert moe.VARIABLE not in build("llada2.1-mini", "h200-8x").env
