"""What `pip install` takes along."""

from __future__ import annotations

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

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
