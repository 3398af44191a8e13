"""What a machine can serve: the table of docs/deploy.md, which `python -m deploy.sizing` writes anew.

One machine was ever measured: one H200 with LLaDA2-mini's architecture and random weights, at several sizes
of the batch. All else is that, scaled by what the GPUs' data sheets say.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

from deploy.images.lock import ROOT
from dllm_stack.settings import CONFIGS
from worker.engine import catalog
from worker.engine.catalog import Model, Profile

PAGE = ROOT / "docs" / "deploy.md"
_BEGIN, _END = "<!-- sizing: made by `python -m deploy.sizing` -->", "<!-- end of sizing -->"

# docs/benchmarks.md, "Experts": requests at once -> tokens/s. LowConfidence, one token a step.
MEASURED = {1: 297, 8: 804, 32: 1610, 64: 2231}
_MEASURED_ON, _MEASURED_MODEL = "H200", "llada2.1-mini"

TOKENS_A_MINUTE = 500  # of one user


@dataclass(frozen=True)
class DataSheet:
    """Of one GPU: TB/s of its memory, and dense bfloat16 TFLOP/s."""

    bandwidth: float
    compute: float


DATA_SHEETS = {
    "L4": DataSheet(0.3, 121),
    "H20": DataSheet(4.0, 148),
    "H100": DataSheet(3.35, 989),
    "H200": DataSheet(4.8, 989),
    "B200": DataSheet(8.0, 2250),
    "MI300X": DataSheet(5.3, 1307),
    "MI325X": DataSheet(6.0, 1307),
    "MI355X": DataSheet(8.0, 2517),
}


def measured(requests: int) -> float:
    """Tokens/s of one H200 with as many requests at once; between two that were measured, on the line through
    both in a plot whose axes are logarithmic."""
    below = max(each for each in MEASURED if each <= requests)
    above = min(each for each in MEASURED if each >= requests)
    if below == above:
        return MEASURED[below]
    share = log(requests / below) / log(above / below)
    return exp((1 - share) * log(MEASURED[below]) + share * log(MEASURED[above]))


def tokens_s(profile: Profile, model: Model) -> float:
    """Of one worker, one token a step."""
    assert profile.gpu
    engine = profile.models[model.name]
    sheet, reference = DATA_SHEETS[profile.gpu], DATA_SHEETS[_MEASURED_ON]
    scale = min(sheet.bandwidth / reference.bandwidth, sheet.compute / reference.compute)
    share = _weights_gb(model) / engine.tp / _weights_gb(catalog.load_model(_MEASURED_MODEL))
    return measured(engine.max_running_requests) * scale / share


def _weights_gb(model: Model) -> float:
    assert model.facts is not None
    assert model.facts.weights_gb is not None
    return model.facts.weights_gb


def table() -> str:
    header = [
        "profile",
        "model",
        "workers x GPUs",
        "requests at once",
        "tokens/s, worker",
        "machine",
        "users",
    ]
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for profile in _profiles():
        for name in ("llada2.1-mini", "llada2.1-flash"):
            if name not in profile.models:
                continue
            engine = profile.models[name]
            workers = profile.gpus // engine.tp
            each = tokens_s(profile, catalog.load_model(name))
            was = (profile.gpu, name) == (_MEASURED_ON, _MEASURED_MODEL)
            cells = [
                f"`{profile.name}`",
                f"`{name}`",
                f"{workers} x {engine.tp}",
                f"{workers * engine.max_running_requests}",
                f"**{each:,.0f}** measured" if was else f"{_rough(each)}",
                _rough(each * workers),
                _rough(each * workers * 60 / TOKENS_A_MINUTE),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def factors() -> str:
    """By how much more, if a forward brings more tokens: one a step is 33 forwards for a block of 32."""
    forward = (1, 2, 4, 8, 16)
    lines = [f"| tokens a forward | {' | '.join(map(str, forward))} |", f"|{'---|' * (1 + len(forward))}"]
    return "\n".join([*lines, f"| times | {' | '.join(f'{33 / 32 * tokens:.1f}' for tokens in forward)} |"])


def _profiles() -> list[Profile]:
    found = [catalog.load_profile(file.stem) for file in sorted((CONFIGS / "profiles").glob("*.yaml"))]
    return [profile for profile in found if profile.gpu]


def _rough(value: float) -> str:
    """To two digits."""
    digits = 10 ** (len(str(int(value))) - 2)
    return f"{round(value / digits) * digits:,.0f}"


def page() -> str:
    """docs/deploy.md as it should be."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    after = rest.partition(_END)[2]
    return f"{before}{_BEGIN}\n\n{table()}\n\n{factors()}\n\n{_END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
