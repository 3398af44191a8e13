"""What `pip install` takes along."""

from __future__ import annotations

import tomllib
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder
from typer.testing import CliRunner

from dllm_stack.cli import app

ROOT = Path(__file__).resolve().parents[1]
CHECKPOINT = "models/demo/checkpoint"


def test_a_wheel_has_the_demo_model_and_every_configuration() -> None:
    builder = WheelBuilder(str(ROOT))
    taken = {file.distribution_path for file in builder.recurse_included_files()}
    needed = [*ROOT.glob(f"{CHECKPOINT}/*"), *ROOT.glob("**/scripts/*.lua")]
    needed += [*ROOT.glob("configs/*/*.yaml"), *ROOT.glob("configs/moe/*/*.json")]
    needed += [*ROOT.glob("configs/prometheus/*"), *ROOT.glob("configs/grafana/dashboards/*")]
    needed += ROOT.glob("gateway/playground/static/*")
    assert ROOT / CHECKPOINT / "model.safetensors" in needed
    assert {str(file.relative_to(ROOT)) for file in needed} <= taken


def test_the_command_says_which_version_it_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert CliRunner().invoke(app, ["--version"]).output == f"dllm-stack {project['version']}\n"
