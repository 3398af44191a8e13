"""All that a run has found."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field

from loadtest.versus.herd import Herd
from loadtest.versus.killed import Killed
from loadtest.versus.overload import Overload
from loadtest.versus.speed import Measured

_PERCENTS = (50, 90, 99)


@dataclass(frozen=True)
class Trials:
    herd: Herd
    overload: Overload
    killed: Killed


@dataclass
class Results:
    """
    Attributes:
        versions: of the gateways that took part.
        skipped: those that did not, and why.
        memory: bytes of each after the load.
        speed: by gateway and workload.
    """

    versions: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    speed: dict[tuple[str, str], Measured] = field(default_factory=dict)
    trials: dict[str, Trials] = field(default_factory=dict)

    @property
    def workloads(self) -> list[str]:
        return list(dict.fromkeys(workload for _, workload in self.speed))

    def document(self) -> dict[str, object]:
        """For JSON: times in milliseconds; null: never."""
        return {
            "versions": self.versions,
            "skipped": self.skipped,
            "memory_bytes": self.memory,
            "speed": {
                workload: {
                    name: _measured(self.speed[name, workload])
                    for name in self.versions
                    if (name, workload) in self.speed
                }
                for workload in self.workloads
            },
            "trials": {name: _trials(trials) for name, trials in self.trials.items()},
        }


def _measured(measured: Measured) -> dict[str, object]:
    return {
        "ttft_ms": {f"p{percent}": measured.ms("ttft_s", percent) for percent in _PERCENTS},
        "total_ms": {f"p{percent}": measured.ms("total_s", percent) for percent in _PERCENTS},
        "requests_per_s": measured.rates,
        "answers": measured.answers,
        "wrong": measured.wrong,
        "cpu_ms_per_request": {name: measured.cpu_ms(name) for name in measured.cpu_s},
    }


def _trials(trials: Trials) -> dict[str, object]:
    overload = {
        "light_ttft_ms": {f"p{percent}": trials.overload.ms(percent) for percent in _PERCENTS},
        "light_requests": len(trials.overload.ttft_s),
        "light_without_text": trials.overload.unanswered,
        "heavy_answered": trials.overload.heavy,
    }
    found = {"herd": asdict(trials.herd), "overload": overload, "killed": asdict(trials.killed)}
    return {name: {key: _finite(value) for key, value in each.items()} for name, each in found.items()}


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
