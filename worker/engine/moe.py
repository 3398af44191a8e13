"""Tuned configurations of SGLang's kernel for a mixture of experts, in configs/moe.

SGLang looks for them in one folder, its own or `SGLANG_MOE_CONFIG_DIR`. So an engine gets a folder that
links to all of SGLang's and to ours, which stand in for SGLang's where both have one.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

VARIABLE = "SGLANG_MOE_CONFIG_DIR"
_IN_SGLANG = Path("srt/layers/moe/moe_runner/triton_utils/configs")  # 0.5.17 to 0.5.23


def is_for(folder: Path, gpu: str) -> bool:
    """Whether there is any for that GPU: a word of the name that the driver reports.

    Args:
        folder: of ours, by version of Triton.
    """
    names = (
        path.stem.partition("device_name=")[2].partition(",")[0] for path in folder.glob("triton_*/*.json")
    )
    return any(gpu in name.removesuffix("_down").split("_") for name in names)


def links(folder: Path, place: Path) -> dict[Path, Path]:
    """A folder for SGLang: link -> target. Empty: SGLang keeps no such files, or is not there.

    Args:
        folder: of ours.
        place: what `SGLANG_MOE_CONFIG_DIR` will be.
    """
    spec = find_spec("sglang")
    sglang = (
        Path(spec.submodule_search_locations[0]) / _IN_SGLANG
        if spec and spec.submodule_search_locations
        else None
    )
    if sglang is None or not sglang.is_dir():
        return {}
    targets = {
        path.relative_to(source): path
        for source in (sglang, folder)
        for path in source.glob("triton_*/*.json")
    }
    return {place / "configs" / name: target.resolve() for name, target in targets.items()}


def link(links: dict[Path, Path]) -> None:
    for path, target in links.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)
